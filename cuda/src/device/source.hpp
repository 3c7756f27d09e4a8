// Where a kernel's noise comes from: a key stream by value, or the one that device memory holds at that moment.
#pragma once

#include "hushvec_cuda/source.hpp"
#include "lanes/inline.hpp"

namespace hushvec::cuda {

HUSHVEC_INLINE KeyStream stream_of(const NoiseSource& source) {
    if (source.in_memory == nullptr) return source.stream;
    KeyStream stream;
    for (int i = 0; i < 4; ++i) {
        stream.key[2 * i] = static_cast<std::uint32_t>(source.in_memory->key[i]);
        stream.key[2 * i + 1] = static_cast<std::uint32_t>(source.in_memory->key[i] >> 32);
    }
    stream.nonce = source.in_memory->nonce;
    stream.cipher = static_cast<Cipher>(source.in_memory->rounds);
    return stream;
}

}  // namespace hushvec::cuda
