// Four lanes of AArch64 NEON: the names the algorithms are written in, one instruction each where there is one.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

namespace hushvec {

struct Neon {
    static constexpr std::size_t lanes = 4;
    using U32 = uint32x4_t;
    using F32 = float32x4_t;
    using Mask = uint32x4_t;   // all bits or none in each lane

    static U32 load(const std::uint32_t* p) { return vld1q_u32(p); }
    static F32 load(const float* p) { return vld1q_f32(p); }
    static void store(std::uint32_t* p, U32 v) { vst1q_u32(p, v); }
    static void store(float* p, F32 v) { vst1q_f32(p, v); }

    static U32 set(std::uint32_t x) { return vdupq_n_u32(x); }
    static F32 set(float x) { return vdupq_n_f32(x); }
    static U32 count_up() { return U32{0, 1, 2, 3}; }

    static U32 add(U32 a, U32 b) { return vaddq_u32(a, b); }
    static U32 sub(U32 a, U32 b) { return vsubq_u32(a, b); }
    static U32 bit_xor(U32 a, U32 b) { return veorq_u32(a, b); }
    static U32 bit_and(U32 a, U32 b) { return vandq_u32(a, b); }
    static U32 bit_or(U32 a, U32 b) { return vorrq_u32(a, b); }
    template <int Bits> static U32 rotate_left(U32 a) {
        if constexpr (Bits == 16) {
            return vreinterpretq_u32_u16(vrev32q_u16(vreinterpretq_u16_u32(a)));
        } else {
            return vsriq_n_u32(vshlq_n_u32(a, Bits), a, 32 - Bits);   // shift right and insert
        }
    }
    template <int Bits> static U32 shift_left(U32 a) { return vshlq_n_u32(a, Bits); }
    template <int Bits> static U32 shift_right(U32 a) { return vshrq_n_u32(a, Bits); }
    template <int Bits> static U32 shift_right_signed(U32 a) { return vreinterpretq_u32_s32(vshrq_n_s32(vreinterpretq_s32_u32(a), Bits)); }
    static U32 shift_left(U32 a, U32 count) { return vshlq_u32(a, vreinterpretq_s32_u32(count)); }
    static U32 leading_zeros(U32 a) { return vclzq_u32(a); }

    static F32 to_float_signed(U32 a) { return vcvtq_f32_s32(vreinterpretq_s32_u32(a)); }
    static U32 bits_of(F32 a) { return vreinterpretq_u32_f32(a); }
    static F32 of_bits(U32 a) { return vreinterpretq_f32_u32(a); }
    static F32 exponent_times_two_ln2(U32 exponent) { return vmulq_f32(to_float_signed(exponent), set(1.3862943611198906188f)); }
    // value ^ (word & sign bit): the sign of `word`'s top bit goes onto `value`.
    static F32 flip_sign(F32 value, U32 word) {
        return vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(value), vandq_u32(word, set(0x80000000u))));
    }

    static F32 add(F32 a, F32 b) { return vaddq_f32(a, b); }
    static F32 sub(F32 a, F32 b) { return vsubq_f32(a, b); }
    static F32 mul(F32 a, F32 b) { return vmulq_f32(a, b); }
    static F32 multiply_add(F32 a, F32 b, F32 c) { return vfmaq_f32(c, a, b); }
    static F32 negative_multiply_add(F32 a, F32 b, F32 c) { return vfmsq_f32(c, a, b); }
    static F32 sqrt(F32 a) { return vsqrtq_f32(a); }
    static F32 magnitude(F32 a) { return vabsq_f32(a); }
    static F32 larger_magnitude(F32 a, F32 b) { return vmaxq_f32(vabsq_f32(a), vabsq_f32(b)); }
    // a, or where |a| > limit the limit with the sign of a; some number in [-limit, limit] for NaN.
    static F32 limit_magnitude(F32 a, F32 limit) { return vminnmq_f32(vmaxnmq_f32(a, vnegq_f32(limit)), limit); }
    static U32 to_integer(F32 a) { return vreinterpretq_u32_s32(vcvtq_s32_f32(a)); }   // towards zero; |a| < 2^31
    // The sum of each vector's lanes, halved as a tree: lane l and lane l + 2 first.
    static void sums_of_lanes(const F32 (&v)[4], float (&sums)[4]) {
        vst1q_f32(sums, vpaddq_f32(vcombine_f32(halved(v[0]), halved(v[1])), vcombine_f32(halved(v[2]), halved(v[3]))));
    }

    static Mask not_less(F32 a, F32 b) { return vmvnq_u32(vcltq_f32(a, b)); }   // true for NaN
    static Mask greater(U32 a, U32 b) { return vcgtq_u32(a, b); }
    static Mask greater_signed(U32 a, U32 b) { return vcgtq_s32(vreinterpretq_s32_u32(a), vreinterpretq_s32_u32(b)); }
    static F32 select(Mask m, F32 a, F32 b) { return vbslq_f32(m, a, b); }   // a where the mask is set, else b
    static Mask mask_or(Mask a, Mask b) { return vorrq_u32(a, b); }
    static bool any(Mask m) { return vmaxvq_u32(m) != 0; }
    static std::uint32_t bits(Mask m) { return vaddvq_u32(vandq_u32(m, U32{1, 2, 4, 8})); }

    // Sixteen numbers, looked up by the low four bits of each lane.
    class Table16 {
    public:
        explicit Table16(const float* numbers) {
            for (int i = 0; i < 4; ++i) bytes_.val[i] = vreinterpretq_u8_f32(load(numbers + 4 * i));
        }
        F32 at(U32 index) const {
            const U32 first_byte = vshlq_n_u32(vandq_u32(index, set(15u)), 2);
            const U32 all_bytes = vmlaq_u32(set(0x03020100u), first_byte, set(0x01010101u));
            return vreinterpretq_f32_u8(vqtbl4q_u8(bytes_, vreinterpretq_u8_u32(all_bytes)));
        }

    private:
        uint8x16x4_t bytes_;
    };

    // float64, as many lanes as F32 in two halves
    struct F64Pair {
        float64x2_t low, high;
    };
    static F64Pair load(const double* p) { return {vld1q_f64(p), vld1q_f64(p + 2)}; }
    static void store(double* p, F64Pair v) {
        vst1q_f64(p, v.low);
        vst1q_f64(p + 2, v.high);
    }
    static F64Pair zero_pair() { return {vdupq_n_f64(0), vdupq_n_f64(0)}; }
    static F64Pair add(F64Pair a, F64Pair b) { return {vaddq_f64(a.low, b.low), vaddq_f64(a.high, b.high)}; }
    static F64Pair sub(F64Pair a, F64Pair b) { return {vsubq_f64(a.low, b.low), vsubq_f64(a.high, b.high)}; }
    static F64Pair mul(F64Pair a, F64Pair b) { return {vmulq_f64(a.low, b.low), vmulq_f64(a.high, b.high)}; }
    static F64Pair set(double x) { return {vdupq_n_f64(x), vdupq_n_f64(x)}; }
    static F64Pair multiply_add(F64Pair a, F64Pair b, F64Pair c) {
        return {vfmaq_f64(c.low, a.low, b.low), vfmaq_f64(c.high, a.high, b.high)};
    }
    static F64Pair sqrt(F64Pair a) { return {vsqrtq_f64(a.low), vsqrtq_f64(a.high)}; }
    static F64Pair widen(F32 v) { return {vcvt_f64_f32(vget_low_f32(v)), vcvt_high_f64_f32(v)}; }
    static F64Pair load_widened(const float* p) { return widen(load(p)); }
    static F32 narrow(F64Pair v) { return vcvt_high_f32_f64(vcvt_f32_f64(v.low), v.high); }
    static void store_widened(double* p, F32 v) { store(p, widen(v)); }
    static F64Pair widen_signed(U32 a) {
        const int32x4_t value = vreinterpretq_s32_u32(a);
        return {vcvtq_f64_s64(vmovl_s32(vget_low_s32(value))), vcvtq_f64_s64(vmovl_high_s32(value))};
    }

    // 64-bit integers made of two words each, in the order of the words.
    struct U64Pair {
        uint64x2_t low, high;
    };
    static U64Pair zip(U32 low_words, U32 high_words) {
        return {vreinterpretq_u64_u32(vzip1q_u32(low_words, high_words)), vreinterpretq_u64_u32(vzip2q_u32(low_words, high_words))};
    }
    static F64Pair unzip(F64Pair v) { return v; }
    static U64Pair shift_left(U64Pair a, U64Pair count) {
        return {vshlq_u64(a.low, vreinterpretq_s64_u64(count.low)), vshlq_u64(a.high, vreinterpretq_s64_u64(count.high))};
    }
    static F64Pair to_double_signed(U64Pair a) {
        return {vcvtq_f64_s64(vreinterpretq_s64_u64(a.low)), vcvtq_f64_s64(vreinterpretq_s64_u64(a.high))};
    }
    static F64Pair exponent_times_two_ln2(U64Pair exponent) { return mul(to_double_signed(exponent), set(1.3862943611198906188)); }
    static F64Pair flip_sign(F64Pair value, U64Pair word) { return {flip_sign(value.low, word.low), flip_sign(value.high, word.high)}; }
    // a where the top bit of `word` is set, b elsewhere.
    static F64Pair choose(U64Pair word, F64Pair a, F64Pair b) {
        return {vbslq_f64(vcltzq_s64(vreinterpretq_s64_u64(word.low)), a.low, b.low),
                vbslq_f64(vcltzq_s64(vreinterpretq_s64_u64(word.high)), a.high, b.high)};
    }

    static F32 load_float16(const std::uint16_t* p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
    static void store_float16(std::uint16_t* p, F32 v) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v))); }

private:
    static float32x2_t halved(F32 v) { return vadd_f32(vget_low_f32(v), vget_high_f32(v)); }
    static float64x2_t flip_sign(float64x2_t value, uint64x2_t word) {
        return vreinterpretq_f64_u64(veorq_u64(vreinterpretq_u64_f64(value), vandq_u64(word, vdupq_n_u64(0x8000000000000000u))));
    }
};

}  // namespace hushvec
