// Windows 10 and later.
#define WIN32_LEAN_AND_MEAN
#if !defined(NOMINMAX)   // libstdc++ of mingw-w64 defines it
#define NOMINMAX
#endif
#include <windows.h>
// After it, whose types it uses.
#include <bcrypt.h>
#include <malloc.h>

#include <algorithm>
#include <new>
#include <stdexcept>

#include "os/os.hpp"

namespace hushvec::os {

// Windows' generator keeps a state of its own in this process, and takes fresh entropy from the kernel from time to time: a snapshot of
// the process puts that state back, unlike on Linux.
void fill_with_random_bytes(void* memory, std::size_t size) {
    constexpr std::size_t kMost = std::size_t{1} << 30;
    auto* bytes = static_cast<std::uint8_t*>(memory);
    for (std::size_t filled = 0; filled < size; filled += kMost) {
        const auto next = static_cast<ULONG>(std::min(kMost, size - filled));
        if (BCryptGenRandom(nullptr, bytes + filled, next, BCRYPT_USE_SYSTEM_PREFERRED_RNG) == 0) continue;
        throw std::runtime_error("the operating system gave no random key: BCryptGenRandom failed");
    }
}

std::size_t page_size() {
    static const std::size_t size = [] {
        SYSTEM_INFO system;
        GetSystemInfo(&system);
        return std::size_t{system.dwPageSize};
    }();
    return size;
}

std::uint8_t* map_between_guards(std::size_t size) {
    auto* first = static_cast<std::uint8_t*>(VirtualAlloc(nullptr, size + 2 * page_size(), MEM_RESERVE | MEM_COMMIT, PAGE_NOACCESS));
    if (first == nullptr) throw std::bad_alloc();
    DWORD before = 0;
    if (VirtualProtect(first + page_size(), size, PAGE_READWRITE, &before) == 0) {
        VirtualFree(first, 0, MEM_RELEASE);
        throw std::bad_alloc();
    }
    return first + page_size();
}

void unmap_with_guards(std::uint8_t* data, std::size_t) noexcept { VirtualFree(data - page_size(), 0, MEM_RELEASE); }

// Locked pages have to fit into the least working set of the process, which is small at first: it grows with them.
int lock(std::uint8_t* data, std::size_t size) {
    if (VirtualLock(data, size) != 0) return 0;
    SIZE_T least = 0, most = 0;
    const HANDLE here = GetCurrentProcess();
    if (GetProcessWorkingSetSize(here, &least, &most) == 0) return ENOMEM;
    const SIZE_T more = size + 16 * page_size();
    if (SetProcessWorkingSetSize(here, least + more, std::max(most, least + 2 * more)) == 0) return ENOMEM;
    return VirtualLock(data, size) != 0 ? 0 : ENOMEM;
}

int lock_as_touched(std::uint8_t* data, std::size_t size) { return lock(data, size); }

int leave_out_of_dumps(std::uint8_t*, std::size_t) { return not_offered; }

int withhold_from_children(std::uint8_t*, std::size_t) { return 0; }   // there are none: Windows has no fork()

void take_over_withheld(std::uint8_t*, std::size_t) {}

void* allocate_aligned(std::size_t alignment, std::size_t bytes) {
    void* memory = _aligned_malloc(bytes, alignment);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}

void free_aligned(void* memory) noexcept { _aligned_free(memory); }

void prefer_large_pages(void*, std::size_t) {}   // they are not to be had by asking

bool overwrite_freed_memory(bool) { return false; }

bool at_fork(void (*)(), void (*)(), void (*)()) { return true; }

std::uint32_t process_id() { return GetCurrentProcessId(); }

void move_away(std::thread&) {}   // Windows starts a thread on an idle processor

bool has_arm_aes() { return IsProcessorFeaturePresent(PF_ARM_V8_CRYPTO_INSTRUCTIONS_AVAILABLE) != 0; }

}  // namespace hushvec::os
