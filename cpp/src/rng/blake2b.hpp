// Keyed BLAKE2b (RFC 7693) with 32 bytes of output: a pseudorandom function of a message of any length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hushvec {

inline constexpr std::size_t kBlake2bKeyBytes = 32;

// What the key alone decides: the state after its block. As secret as the key, and wiped when it goes.
struct Blake2bKey {
    explicit Blake2bKey(std::span<const std::uint8_t, kBlake2bKeyBytes> key);
    ~Blake2bKey();
    Blake2bKey(const Blake2bKey&) = delete;
    Blake2bKey& operator=(const Blake2bKey&) = delete;

    std::uint64_t state[8];
};

}  // namespace hushvec
