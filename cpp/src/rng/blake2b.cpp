#include "rng/blake2b.hpp"

#include <cstring>

#include "hushvec/wipe.hpp"
#include "rng/blake2b_rounds.hpp"

namespace hushvec {
namespace {

constexpr std::uint64_t kDigestBytes = 32;

}  // namespace

// RFC 7693 section 2.5: the parameter block of a sequential hash; then the key, padded to a block of its own.
Blake2bKey::Blake2bKey(std::span<const std::uint8_t, kBlake2bKeyBytes> key) {
    std::memcpy(state, blake2b::kIv, sizeof state);
    state[0] ^= 0x01010000 ^ (std::uint64_t{kBlake2bKeyBytes} << 8) ^ kDigestBytes;
    std::uint64_t m[16] = {};
    std::memcpy(m, key.data(), key.size());
    blake2b::compress(state, m, blake2b::kBlockBytes, false);
    wipe(m, sizeof m);
}

Blake2bKey::~Blake2bKey() { wipe(state, sizeof state); }

}  // namespace hushvec
