// A copy of a key stream that is wiped where it lies when its scope ends.
#pragma once

#include <cstring>

#include "hushvec/keystream.hpp"

namespace hushvec {

struct WipedStream : KeyStream {
    WipedStream(const KeyStream& from, std::uint64_t first_nonce) : KeyStream(from) { nonce = first_nonce; }
    // The key is the sum (xor) of both.
    WipedStream(const KeyStream& from, std::uint64_t first_nonce, const KeyStream& other) : WipedStream(from, first_nonce) {
        for (std::size_t word = 0; word < 8; ++word) key[word] ^= other.key[word];
    }
    explicit WipedStream(const KeyStream& from) : KeyStream(from) {}
    ~WipedStream() { explicit_bzero(static_cast<KeyStream*>(this), sizeof(KeyStream)); }
    WipedStream(const WipedStream&) = delete;
    WipedStream& operator=(const WipedStream&) = delete;
};

}  // namespace hushvec
