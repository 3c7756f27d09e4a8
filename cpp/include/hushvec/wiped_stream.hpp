// A copy of a key stream that is wiped where it lies when its scope ends, with the stack frames of what worked with it.
#pragma once

#include <cstring>

#include "hushvec/keystream.hpp"
#include "hushvec/stack_frames.hpp"

namespace hushvec {

struct WipedKey : KeyStream {
    WipedKey() = default;
    explicit WipedKey(const KeyStream& from) : KeyStream(from) {}
    ~WipedKey() { explicit_bzero(static_cast<KeyStream*>(this), sizeof(KeyStream)); }
    WipedKey(const WipedKey&) = delete;
    WipedKey& operator=(const WipedKey&) = delete;
};

struct WipedStream : WipedKey {
    WipedStream(const KeyStream& from, std::uint64_t first_nonce) : WipedKey(from) { nonce = first_nonce; }
    // The key is the sum (xor) of both.
    WipedStream(const KeyStream& from, std::uint64_t first_nonce, const KeyStream& other) : WipedStream(from, first_nonce) {
        for (std::size_t word = 0; word < 8; ++word) key[word] ^= other.key[word];
    }
    explicit WipedStream(const KeyStream& from) : WipedKey(from) {}
    ~WipedStream() { wipe_stack_below(); }
};

}  // namespace hushvec
