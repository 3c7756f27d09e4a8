// One AES block in a NEON register (AESE and AESMC).
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lanes/aes/kernels.hpp"

namespace hushvec {

struct AesNeon {
    static constexpr std::size_t blocks = 1;
    static constexpr std::size_t at_once = 8;
    using Blocks = uint8x16_t;

    struct Schedule {
        const AesRoundKeys& keys;
        explicit Schedule(const AesRoundKeys& round_keys) : keys(round_keys) {}
        Blocks operator[](std::size_t round) const { return bytes(keys.words + kAesBlockWords * round); }
    };

    static Blocks same(const AesBlock& block) { return load(&block); }
    static Blocks same(Blocks of_all) { return of_all; }
    static Blocks load(const AesBlock* p) { return bytes(p->words); }
    static void store(void* p, Blocks v) { std::memcpy(p, &v, sizeof v); }
    static Blocks bit_xor(Blocks a, Blocks b) { return veorq_u8(a, b); }
    // AESE adds its key first, where FIPS 197 adds it last: so its key is zero.
    static Blocks round(Blocks state, Blocks key) { return veorq_u8(vaesmcq_u8(vaeseq_u8(state, vdupq_n_u8(0))), key); }
    static Blocks last_round(Blocks state, Blocks key) { return veorq_u8(vaeseq_u8(state, vdupq_n_u8(0)), key); }
    // With four equal columns ShiftRows changes nothing.
    static std::uint32_t sub_word(std::uint32_t word) {
        const Blocks columns = vreinterpretq_u8_u32(vdupq_n_u32(word));
        return vgetq_lane_u32(vreinterpretq_u32_u8(vaeseq_u8(columns, vdupq_n_u8(0))), 0);
    }

private:
    static Blocks bytes(const std::uint32_t* words) { return vreinterpretq_u8_u32(vld1q_u32(words)); }
};

}  // namespace hushvec
