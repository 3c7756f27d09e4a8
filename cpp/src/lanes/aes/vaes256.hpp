// Two AES blocks in a ymm register (VAES and AVX2).
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "lanes/aes/kernels.hpp"
#include "lanes/aes/ni_words.hpp"

namespace hushvec {

struct Vaes256 {
    static constexpr std::size_t blocks = 2;
    static constexpr std::size_t at_once = 8;
    using Blocks = __m256i;

    struct Schedule {
        const AesRoundKeys& keys;
        explicit Schedule(const AesRoundKeys& round_keys) : keys(round_keys) {}
        Blocks operator[](std::size_t round) const { return same(reinterpret_cast<const __m128i*>(keys.words)[round]); }
    };

    static Blocks same(__m128i block) { return _mm256_broadcastsi128_si256(block); }
    static Blocks same(const AesBlock& block) { return same(ni_block(block)); }
    static Blocks same(Blocks of_all) { return of_all; }
    static Blocks load(const AesBlock* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
    static void store(void* p, Blocks v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
    static Blocks bit_xor(Blocks a, Blocks b) { return _mm256_xor_si256(a, b); }
    static Blocks round(Blocks state, Blocks key) { return _mm256_aesenc_epi128(state, key); }
    static Blocks last_round(Blocks state, Blocks key) { return _mm256_aesenclast_epi128(state, key); }
    static std::uint32_t sub_word(std::uint32_t word) { return ni_sub_word(word); }
};

}  // namespace hushvec
