// WebAssembly: a program has one thread, and its memory is an array that the page or program around it owns.
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

#include "hushvec/wipe.hpp"
#include "os/os.hpp"

namespace hushvec::os {

// WASI's random_get, which answers with crypto.getRandomValues where JavaScript is the host: at most 65,536 bytes at a time, and getentropy()
// asks for at most 256.
void fill_with_random_bytes(void* memory, std::size_t size) {
    constexpr std::size_t kMost = 256;
    auto* bytes = static_cast<std::uint8_t*>(memory);
    for (std::size_t filled = 0; filled < size; filled += kMost) {
        if (getentropy(bytes + filled, std::min(kMost, size - filled)) == 0) continue;
        throw std::runtime_error("the operating system gave no random key: random_get failed");
    }
}

std::size_t page_size() { return 4096; }   // memory grows by 64 KiB: this is only a unit for slots of keys

// Without guards: no page can be protected. What leaves the whole memory stops the program.
std::uint8_t* map_between_guards(std::size_t size) { return static_cast<std::uint8_t*>(std::memset(allocate_aligned(page_size(), size), 0, size)); }

void unmap_with_guards(std::uint8_t* data, std::size_t) noexcept { free_aligned(data); }

int lock(std::uint8_t*, std::size_t) { return not_offered; }

int lock_as_touched(std::uint8_t*, std::size_t) { return not_offered; }

int leave_out_of_dumps(std::uint8_t*, std::size_t) { return not_offered; }

int withhold_from_children(std::uint8_t*, std::size_t) { return 0; }   // there are none

void take_over_withheld(std::uint8_t*, std::size_t) {}

void* allocate_aligned(std::size_t alignment, std::size_t bytes) {
    void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}

// Overwritten first, as all that is freed: it may hold rows, and whoever has the instance can read all of its memory.
void free_aligned(void* memory) noexcept {
    wipe(memory, malloc_usable_size(memory));
    std::free(memory);
}

void prefer_large_pages(void*, std::size_t) {}

bool overwrite_freed_memory(bool) { return false; }

bool at_fork(void (*)(), void (*)(), void (*)()) { return true; }

std::uint32_t process_id() { return 1; }

bool has_arm_aes() { return false; }

}  // namespace hushvec::os

void operator delete(void* memory) noexcept { hushvec::os::free_aligned(memory); }
void operator delete(void* memory, std::size_t) noexcept { hushvec::os::free_aligned(memory); }
