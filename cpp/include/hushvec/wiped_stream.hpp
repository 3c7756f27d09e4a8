// A copy of a key stream that is wiped where it lies when its scope ends.
#pragma once

#include <cstring>

#include "hushvec/keystream.hpp"

namespace hushvec {

struct WipedStream : KeyStream {
    WipedStream(const KeyStream& from, std::uint64_t first_nonce) : KeyStream(from) { nonce = first_nonce; }
    explicit WipedStream(const KeyStream& from) : KeyStream(from) {}
    ~WipedStream() { explicit_bzero(static_cast<KeyStream*>(this), sizeof(KeyStream)); }
    WipedStream(const WipedStream&) = delete;
    WipedStream& operator=(const WipedStream&) = delete;
};

}  // namespace hushvec
