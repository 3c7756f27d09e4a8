// macOS on both of its processors.
#include <mach/mach.h>
#include <mach/vm_inherit.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/sysctl.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>

#include "os/os.hpp"

namespace hushvec::os {

// The kernel gives at most 256 bytes at a time.
void fill_with_random_bytes(void* memory, std::size_t size) {
    constexpr std::size_t kMost = 256;
    auto* bytes = static_cast<std::uint8_t*>(memory);
    for (std::size_t filled = 0; filled < size; filled += kMost) {
        if (getentropy(bytes + filled, std::min(kMost, size - filled)) == 0) continue;
        throw std::runtime_error(std::string("the operating system gave no random key: ") + std::strerror(errno));
    }
}

int lock_as_touched(std::uint8_t* data, std::size_t size) { return lock(data, size); }

int leave_out_of_dumps(std::uint8_t*, std::size_t) { return not_offered; }

// The child has no such pages at all.
int withhold_from_children(std::uint8_t* data, std::size_t size) { return minherit(data, size, VM_INHERIT_NONE) == 0 ? 0 : errno; }

// New pages at the same place, which its own children do not get either.
void take_over_withheld(std::uint8_t* data, std::size_t size) {
    if (mmap(data, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) std::abort();
    minherit(data, size, VM_INHERIT_NONE);
}

void* allocate_aligned(std::size_t alignment, std::size_t bytes) {
    void* memory = nullptr;
    if (posix_memalign(&memory, alignment, bytes) != 0) throw std::bad_alloc();
    return memory;
}

void prefer_large_pages(void*, std::size_t) {}   // they are not to be had by asking

bool overwrite_freed_memory(bool) { return false; }

void move_away(std::thread&) {}   // programs do not choose processors

bool has_arm_aes() {
    int has = 0;
    std::size_t size = sizeof has;
    return sysctlbyname("hw.optional.arm.FEAT_AES", &has, &size, nullptr, 0) == 0 && has != 0;
}

}  // namespace hushvec::os
