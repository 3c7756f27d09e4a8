// What the kernels of one call draw from: a key stream by value, or the key in a state on the device with the nonce that the call took.
//
// The key is read where it lies. Only the nonce is copied to the call's workspace, which goes back to the caller's allocator.
#pragma once

#include "device/team.hpp"
#include "hushvec_cuda/source.hpp"
#include "lanes/inline.hpp"

namespace hushvec::cuda {

struct CallStream {
    KeyStream stream;
    const DeviceStream* state = nullptr;   // null: `stream` is it
    const std::uint64_t* nonce = nullptr;
};

// The first step of a call that draws from a state, in one thread.
HUSHVEC_INLINE void take_nonce(DeviceStream* state, std::uint64_t* nonce) { *nonce = atomic_add(&state->nonce, std::uint64_t{1}); }

// A kernel cannot refuse a state: a number of rounds that ChaCha does not have must neither hang it nor weaken the stream.
HUSHVEC_INLINE Cipher cipher_of(const DeviceStream& state) {
    if (state.rounds == 8) return Cipher::chacha8;
    if (state.rounds == 12) return Cipher::chacha12;
    return Cipher::chacha20;
}

HUSHVEC_INLINE KeyStream stream_of(const CallStream& source) {
    if (source.state == nullptr) return source.stream;
    KeyStream stream;
    for (int i = 0; i < 4; ++i) {
        stream.key[2 * i] = static_cast<std::uint32_t>(source.state->key[i]);
        stream.key[2 * i + 1] = static_cast<std::uint32_t>(source.state->key[i] >> 32);
    }
    stream.nonce = *source.nonce;
    stream.cipher = cipher_of(*source.state);
    return stream;
}

}  // namespace hushvec::cuda
