// One AES block in an xmm register (AES-NI).
#pragma once

#include <wmmintrin.h>

#include <cstddef>
#include <cstdint>

#include "lanes/aes/kernels.hpp"
#include "lanes/aes/ni_words.hpp"

namespace hushvec {

struct AesNi {
    static constexpr std::size_t blocks = 1;
    static constexpr std::size_t at_once = 8;
    using Blocks = __m128i;

    struct Schedule {
        const AesRoundKeys& keys;
        explicit Schedule(const AesRoundKeys& round_keys) : keys(round_keys) {}
        Blocks operator[](std::size_t round) const { return _mm_load_si128(reinterpret_cast<const __m128i*>(keys.words) + round); }
    };

    static Blocks same(const AesBlock& block) { return ni_block(block); }
    static Blocks same(Blocks of_all) { return of_all; }
    static Blocks load(const AesBlock* p) { return _mm_load_si128(reinterpret_cast<const __m128i*>(p)); }
    static void store(void* p, Blocks v) { _mm_storeu_si128(static_cast<__m128i*>(p), v); }
    static Blocks bit_xor(Blocks a, Blocks b) { return _mm_xor_si128(a, b); }
    static Blocks round(Blocks state, Blocks key) { return _mm_aesenc_si128(state, key); }
    static Blocks last_round(Blocks state, Blocks key) { return _mm_aesenclast_si128(state, key); }
    static std::uint32_t sub_word(std::uint32_t word) { return ni_sub_word(word); }
};

}  // namespace hushvec
