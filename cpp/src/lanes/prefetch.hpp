// Asks for memory before its use. The hint never faults, so an address past the end of an array does no harm.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lanes/inline.hpp"

namespace hushvec {

inline constexpr std::size_t kCacheLine = 64;

HUSHVEC_INLINE void prefetch_to_read(const void* address, std::size_t bytes_ahead) {
    __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(address) + bytes_ahead));
}

HUSHVEC_INLINE void prefetch_to_write(const void* address, std::size_t bytes_ahead) {
    __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(address) + bytes_ahead), 1);
}

}  // namespace hushvec
