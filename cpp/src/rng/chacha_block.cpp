// ChaCha, one block at a time, in the words of RFC 8439 section 2.
#include <bit>

#include "hushvec/keystream.hpp"
#include "hushvec/wipe.hpp"

namespace hushvec {
namespace {

// "expand 32-byte k", RFC 8439 section 2.3.
constexpr std::uint32_t kConstants[4] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};

// RFC 8439 section 2.1.
void quarter_round(Block& s, std::size_t a, std::size_t b, std::size_t c, std::size_t d) {
    // clang-format off
    s[a] += s[b]; s[d] ^= s[a]; s[d] = std::rotl(s[d], 16);
    s[c] += s[d]; s[b] ^= s[c]; s[b] = std::rotl(s[b], 12);
    s[a] += s[b]; s[d] ^= s[a]; s[d] = std::rotl(s[d], 8);
    s[c] += s[d]; s[b] ^= s[c]; s[b] = std::rotl(s[b], 7);
    // clang-format on
}

}  // namespace

Block chacha_block(const KeyStream& stream, std::uint64_t counter) {
    Block initial = {
        // clang-format off
        kConstants[0], kConstants[1], kConstants[2], kConstants[3],
        stream.key[0], stream.key[1], stream.key[2], stream.key[3],
        stream.key[4], stream.key[5], stream.key[6], stream.key[7],
        static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32),
        static_cast<std::uint32_t>(stream.nonce), static_cast<std::uint32_t>(stream.nonce >> 32),
        // clang-format on
    };
    Block state = initial;
    for (int round = 0; round < rounds_of(stream.cipher); round += 2) {
        quarter_round(state, 0, 4, 8, 12);
        quarter_round(state, 1, 5, 9, 13);
        quarter_round(state, 2, 6, 10, 14);
        quarter_round(state, 3, 7, 11, 15);
        quarter_round(state, 0, 5, 10, 15);
        quarter_round(state, 1, 6, 11, 12);
        quarter_round(state, 2, 7, 8, 13);
        quarter_round(state, 3, 4, 9, 14);
    }
    for (std::size_t word = 0; word < kBlockWords; ++word) state[word] += initial[word];
    wipe(initial.data(), sizeof initial);   // it has the key in it
    return state;
}

}  // namespace hushvec
