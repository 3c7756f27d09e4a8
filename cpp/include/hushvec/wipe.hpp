// Zeros over a secret that nothing reads afterwards, which compilers would otherwise leave out.
#pragma once

#include <cstddef>
#include <cstring>

namespace hushvec {

inline void wipe(void* memory, std::size_t size) noexcept {
    std::memset(memory, 0, size);
    asm volatile("" : : "r"(memory) : "memory");   // as far as the compiler knows, this reads it
}

}  // namespace hushvec
