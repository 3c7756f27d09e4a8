// What Linux and macOS share.
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <new>

#include "os/os.hpp"

namespace hushvec::os {

std::size_t page_size() {
    static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return size;
}

std::uint8_t* map_between_guards(std::size_t size) {
    const std::size_t all = size + 2 * page_size();
    void* first = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (first == MAP_FAILED) throw std::bad_alloc();
    auto* data = static_cast<std::uint8_t*>(first) + page_size();
    if (mprotect(data, size, PROT_READ | PROT_WRITE) != 0) {
        munmap(first, all);
        throw std::bad_alloc();
    }
    return data;
}

void unmap_with_guards(std::uint8_t* data, std::size_t size) noexcept { munmap(data - page_size(), size + 2 * page_size()); }

int lock(std::uint8_t* data, std::size_t size) { return mlock(data, size) == 0 ? 0 : errno; }

void free_aligned(void* memory) noexcept { std::free(memory); }

bool at_fork(void (*before)(), void (*in_parent)(), void (*in_child)()) { return pthread_atfork(before, in_parent, in_child) == 0; }

std::uint32_t process_id() { return static_cast<std::uint32_t>(getpid()); }

}  // namespace hushvec::os
