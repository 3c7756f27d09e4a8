// launch_one KERNEL THREADS BLOCKS: runs a kernel of two arguments, `in` and `out`, each as many words as there are threads, and prints `out`.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "block.hpp"

namespace {

std::map<std::string, const emulator::Kernel*>& kernels() {
    static std::map<std::string, const emulator::Kernel*> all;
    return all;
}

}  // namespace

namespace emulator {

Kernel::Kernel(const char* kernel_name, void (*function)(Thread&), std::uint32_t shared, std::initializer_list<std::size_t> sizes)
    : name(kernel_name), run(function), shared_bytes(shared), parameter_sizes(sizes) {
    kernels()[name] = this;
}
Constant::Constant(const void* data, std::size_t bytes) { memory().add_constant(data, bytes); }

}  // namespace emulator

int main(int, char** words) {
    const auto threads = static_cast<std::uint32_t>(std::atoi(words[2])), blocks = static_cast<std::uint32_t>(std::atoi(words[3]));
    std::uint8_t* const arrays[] = {emulator::memory().allocate(4 * threads, 0), emulator::memory().allocate(4 * threads, 0)};
    for (std::uint32_t i = 0; i < threads; ++i) std::memcpy(arrays[0] + 4 * i, &i, 4);
    emulator::Launch launch = {kernels().at(words[1]), {blocks, 1}, threads, 0, std::vector<std::uint8_t>(32), {0, 16}};
    for (int i = 0; i < 2; ++i) std::memcpy(launch.parameters.data() + 16 * i, &arrays[i], sizeof(void*));
    emulator::run(launch);
    for (std::uint32_t i = 0; i < threads; ++i) {
        std::uint32_t word;
        std::memcpy(&word, arrays[1] + 4 * i, 4);
        std::printf("%08x ", word);
    }
    std::printf("\n%zu faults\n", emulator::fault_count());
}
