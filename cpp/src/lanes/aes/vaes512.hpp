// Four AES blocks in a zmm register (VAES and AVX-512).
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "lanes/aes/kernels.hpp"
#include "lanes/aes/ni_words.hpp"

namespace hushvec {

struct Vaes512 {
    static constexpr std::size_t blocks = 4;
    static constexpr std::size_t at_once = 16;
    using Blocks = __m512i;

    struct Schedule {
        const AesRoundKeys& keys;
        explicit Schedule(const AesRoundKeys& round_keys) : keys(round_keys) {}
        Blocks operator[](std::size_t round) const { return same(reinterpret_cast<const __m128i*>(keys.words)[round]); }
    };

    static Blocks same(__m128i block) { return _mm512_broadcast_i32x4(block); }
    static Blocks same(const AesBlock& block) { return same(ni_block(block)); }
    static Blocks same(Blocks of_all) { return of_all; }
    static Blocks load(const AesBlock* p) { return _mm512_loadu_si512(p); }
    static void store(void* p, Blocks v) { _mm512_storeu_si512(p, v); }
    static Blocks bit_xor(Blocks a, Blocks b) { return _mm512_xor_si512(a, b); }
    static Blocks round(Blocks state, Blocks key) { return _mm512_aesenc_epi128(state, key); }
    static Blocks last_round(Blocks state, Blocks key) { return _mm512_aesenclast_epi128(state, key); }
    static std::uint32_t sub_word(std::uint32_t word) { return ni_sub_word(word); }
};

}  // namespace hushvec
