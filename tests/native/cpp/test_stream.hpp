// One fixed key and nonce for tests of what a stream gives.
#pragma once

#include <cstdint>

#include "hushvec/keystream.hpp"

namespace hushvec::test {

inline KeyStream test_stream(Cipher cipher = Cipher::chacha20) {
    KeyStream stream;
    for (std::uint32_t i = 0; i < 8; ++i) stream.key[i] = 0x9E3779B9u * (i + 1);
    stream.nonce = 0x0123456789ABCDEFu;
    stream.cipher = cipher;
    return stream;
}

}  // namespace hushvec::test
