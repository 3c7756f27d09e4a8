// The compression function of BLAKE2b, RFC 7693 section 3.2. Names are the RFC's: h the state, m the words of a block, t the bytes
// so far. Word is a 64-bit integer, or a vector of them: one message a lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "lanes/inline.hpp"

namespace hushvec::blake2b {

inline constexpr std::size_t kBlockBytes = 128;
inline constexpr std::uint64_t kIv[8] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
                                         0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
inline constexpr std::size_t kRounds = 12;
inline constexpr std::uint8_t kSigma[10][16] = {
    // clang-format off
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};
    // clang-format on

template <int Bits, class Word>
HUSHVEC_INLINE void rotate_right_of_xor(Word& x, const Word& y) {
    x ^= y;
    x = (x >> Bits) | (x << (64 - Bits));
}

template <class Word>
HUSHVEC_INLINE void mix(Word& a, Word& b, Word& c, Word& d, const Word& x, const Word& y) {
    // clang-format off
    a += b + x; rotate_right_of_xor<32>(d, a);
    c += d;     rotate_right_of_xor<24>(b, c);
    a += b + y; rotate_right_of_xor<16>(d, a);
    c += d;     rotate_right_of_xor<63>(b, c);
    // clang-format on
}

// One round. Its number is a constant, so that every m[s[i]] is a plain load.
template <std::size_t Round, class Word>
HUSHVEC_INLINE void mix_round(Word (&v)[16], const Word (&m)[16]) {
    constexpr const std::uint8_t(&s)[16] = kSigma[Round % 10];
    mix(v[0], v[4], v[8], v[12], m[s[0]], m[s[1]]);
    mix(v[1], v[5], v[9], v[13], m[s[2]], m[s[3]]);
    mix(v[2], v[6], v[10], v[14], m[s[4]], m[s[5]]);
    mix(v[3], v[7], v[11], v[15], m[s[6]], m[s[7]]);
    mix(v[0], v[5], v[10], v[15], m[s[8]], m[s[9]]);
    mix(v[1], v[6], v[11], v[12], m[s[10]], m[s[11]]);
    mix(v[2], v[7], v[8], v[13], m[s[12]], m[s[13]]);
    mix(v[3], v[4], v[9], v[14], m[s[14]], m[s[15]]);
}

template <class Word, std::size_t... Round>
HUSHVEC_INLINE void mix_rounds(Word (&v)[16], const Word (&m)[16], std::index_sequence<Round...>) {
    (mix_round<Round>(v, m), ...);
}

// Messages are shorter than 2^64 bytes, so the high half of t is 0.
template <class Word>
HUSHVEC_INLINE void compress(Word (&h)[8], const Word (&m)[16], std::uint64_t t, bool last) {
    Word v[16];
    for (std::size_t i = 0; i < 8; ++i) {
        v[i] = h[i];
        v[i + 8] = Word{} + kIv[i];
    }
    v[12] ^= t;
    if (last) v[14] = ~v[14];
    mix_rounds(v, m, std::make_index_sequence<kRounds>());
    for (std::size_t i = 0; i < 8; ++i) h[i] ^= v[i] ^ v[i + 8];
}

}  // namespace hushvec::blake2b
