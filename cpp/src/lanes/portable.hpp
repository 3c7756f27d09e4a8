// Four lanes in the compilers' own vector type, for any machine: whatever 128-bit vectors the target has, or scalars.
//
// No fused multiply-add: where the target lacks one, std::fma is a library call. multiply_add therefore rounds twice,
// and this backend has error bounds of its own.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "lanes/float16.hpp"
#include "lanes/inline.hpp"

namespace hushvec {

struct Portable {
    static constexpr std::size_t lanes = 4;
    typedef std::uint32_t U32 __attribute__((vector_size(16)));
    typedef std::int32_t I32 __attribute__((vector_size(16)));
    typedef float F32 __attribute__((vector_size(16)));
    typedef double F64 __attribute__((vector_size(16)));
    typedef std::uint64_t U64 __attribute__((vector_size(16)));
    typedef std::int64_t I64 __attribute__((vector_size(16)));
    using Mask = U32;   // all bits or none in each lane

    static HUSHVEC_INLINE U32 load(const std::uint32_t* p) { return U32{p[0], p[1], p[2], p[3]}; }
    static HUSHVEC_INLINE F32 load(const float* p) { return F32{p[0], p[1], p[2], p[3]}; }
    static HUSHVEC_INLINE void store(std::uint32_t* p, U32 v) { __builtin_memcpy(p, &v, sizeof v); }
    static HUSHVEC_INLINE void store(float* p, F32 v) { __builtin_memcpy(p, &v, sizeof v); }

    static HUSHVEC_INLINE U32 set(std::uint32_t x) { return U32{x, x, x, x}; }
    static HUSHVEC_INLINE F32 set(float x) { return F32{x, x, x, x}; }
    static HUSHVEC_INLINE U32 count_up() { return U32{0, 1, 2, 3}; }

    static HUSHVEC_INLINE U32 add(U32 a, U32 b) { return a + b; }
    static HUSHVEC_INLINE U32 sub(U32 a, U32 b) { return a - b; }
    static HUSHVEC_INLINE U32 bit_xor(U32 a, U32 b) { return a ^ b; }
    static HUSHVEC_INLINE U32 bit_and(U32 a, U32 b) { return a & b; }
    static HUSHVEC_INLINE U32 bit_or(U32 a, U32 b) { return a | b; }
    template <int Bits> static HUSHVEC_INLINE U32 rotate_left(U32 a) { return (a << Bits) | (a >> (32 - Bits)); }
    template <int Bits> static HUSHVEC_INLINE U32 shift_left(U32 a) { return a << Bits; }
    template <int Bits> static HUSHVEC_INLINE U32 shift_right(U32 a) { return a >> Bits; }
    template <int Bits> static HUSHVEC_INLINE U32 shift_right_signed(U32 a) { return reinterpret<U32>(reinterpret<I32>(a) >> Bits); }
    static HUSHVEC_INLINE U32 shift_left(U32 a, U32 count) {   // count < 32
        return U32{a[0] << count[0], a[1] << count[1], a[2] << count[2], a[3] << count[3]};
    }
    // At most 31, so that the shift that follows is defined for the word 0 too.
    static HUSHVEC_INLINE U32 leading_zeros(U32 a) { return U32{zeros(a[0]), zeros(a[1]), zeros(a[2]), zeros(a[3])}; }

    static HUSHVEC_INLINE F32 to_float_signed(U32 a) { return __builtin_convertvector(reinterpret<I32>(a), F32); }
    static HUSHVEC_INLINE U32 bits_of(F32 a) { return reinterpret<U32>(a); }
    static HUSHVEC_INLINE F32 of_bits(U32 a) { return reinterpret<F32>(a); }
    static HUSHVEC_INLINE F32 exponent_times_two_ln2(U32 exponent) { return to_float_signed(exponent) * set(1.3862943611198906188f); }
    // value ^ (word & sign bit): the sign of `word`'s top bit goes onto `value`.
    static HUSHVEC_INLINE F32 flip_sign(F32 value, U32 word) {
        return reinterpret<F32>(reinterpret<U32>(value) ^ (word & set(0x80000000u)));
    }

    static HUSHVEC_INLINE F32 add(F32 a, F32 b) { return a + b; }
    static HUSHVEC_INLINE F32 sub(F32 a, F32 b) { return a - b; }
    static HUSHVEC_INLINE F32 mul(F32 a, F32 b) { return a * b; }
    static HUSHVEC_INLINE F32 multiply_add(F32 a, F32 b, F32 c) { return a * b + c; }
    static HUSHVEC_INLINE F32 negative_multiply_add(F32 a, F32 b, F32 c) { return c - a * b; }
    static HUSHVEC_INLINE F32 sqrt(F32 a) {
        return F32{__builtin_sqrtf(a[0]), __builtin_sqrtf(a[1]), __builtin_sqrtf(a[2]), __builtin_sqrtf(a[3])};
    }
    static HUSHVEC_INLINE F32 magnitude(F32 a) { return reinterpret<F32>(reinterpret<U32>(a) & set(0x7FFFFFFFu)); }
    static HUSHVEC_INLINE F32 larger_magnitude(F32 a, F32 b) {
        const F32 x = magnitude(a), y = magnitude(b);
        const U32 take_x = reinterpret<U32>(x > y);
        return reinterpret<F32>((reinterpret<U32>(x) & take_x) | (reinterpret<U32>(y) & ~take_x));
    }

    // a, or where |a| > limit the limit with the sign of a; some number in [-limit, limit] for NaN.
    static HUSHVEC_INLINE F32 limit_magnitude(F32 a, F32 limit) {
        const U32 below = reinterpret<U32>(a <= limit);
        const F32 upper = reinterpret<F32>((reinterpret<U32>(a) & below) | (reinterpret<U32>(limit) & ~below));
        const U32 above = reinterpret<U32>(upper >= -limit);
        return reinterpret<F32>((reinterpret<U32>(upper) & above) | (reinterpret<U32>(-limit) & ~above));
    }
    static HUSHVEC_INLINE U32 to_integer(F32 a) { return reinterpret<U32>(__builtin_convertvector(a, I32)); }   // towards zero; |a| < 2^31
    // The sum of each vector's lanes, halved as a tree: lane l and lane l + 2 first.
    static HUSHVEC_INLINE void sums_of_lanes(const F32 (&v)[4], float (&sums)[4]) {
        for (std::size_t i = 0; i < 4; ++i) sums[i] = (v[i][0] + v[i][2]) + (v[i][1] + v[i][3]);
    }

    static HUSHVEC_INLINE Mask not_less(F32 a, F32 b) { return ~reinterpret<U32>(a < b); }   // true for NaN
    static HUSHVEC_INLINE Mask greater(U32 a, U32 b) { return reinterpret<U32>(a > b); }
    static HUSHVEC_INLINE Mask greater_signed(U32 a, U32 b) { return reinterpret<U32>(reinterpret<I32>(a) > reinterpret<I32>(b)); }
    // a where the mask is set, else b
    static HUSHVEC_INLINE F32 select(Mask m, F32 a, F32 b) { return reinterpret<F32>((m & reinterpret<U32>(a)) | (~m & reinterpret<U32>(b))); }
    static HUSHVEC_INLINE Mask mask_or(Mask a, Mask b) { return a | b; }
    static HUSHVEC_INLINE bool any(Mask m) { return ((m[0] | m[1]) | (m[2] | m[3])) != 0; }
    static HUSHVEC_INLINE std::uint32_t bits(Mask m) { return (m[0] & 1u) | (m[1] & 2u) | (m[2] & 4u) | (m[3] & 8u); }

    // Sixteen numbers, looked up by the low four bits of each lane.
    class Table16 {
    public:
        explicit HUSHVEC_INLINE Table16(const float* numbers) { __builtin_memcpy(numbers_, numbers, sizeof numbers_); }
        HUSHVEC_INLINE F32 at(U32 index) const {
            return F32{numbers_[index[0] & 15], numbers_[index[1] & 15], numbers_[index[2] & 15], numbers_[index[3] & 15]};
        }

    private:
        float numbers_[16];
    };

    // float64, as many lanes as F32 in two halves
    struct F64Pair {
        F64 low, high;
    };
    static HUSHVEC_INLINE F64Pair load(const double* p) { return {F64{p[0], p[1]}, F64{p[2], p[3]}}; }
    static HUSHVEC_INLINE void store(double* p, F64Pair v) {
        __builtin_memcpy(p, &v.low, sizeof v.low);
        __builtin_memcpy(p + 2, &v.high, sizeof v.high);
    }
    static HUSHVEC_INLINE F64Pair zero_pair() { return {F64{}, F64{}}; }
    static HUSHVEC_INLINE F64Pair add(F64Pair a, F64Pair b) { return {a.low + b.low, a.high + b.high}; }
    static HUSHVEC_INLINE F64Pair sub(F64Pair a, F64Pair b) { return {a.low - b.low, a.high - b.high}; }
    static HUSHVEC_INLINE F64Pair mul(F64Pair a, F64Pair b) { return {a.low * b.low, a.high * b.high}; }
    static HUSHVEC_INLINE F64Pair set(double x) { return {F64{x, x}, F64{x, x}}; }
    static HUSHVEC_INLINE F64Pair multiply_add(F64Pair a, F64Pair b, F64Pair c) { return add(mul(a, b), c); }
    static HUSHVEC_INLINE F64Pair sqrt(F64Pair a) {
        return {F64{__builtin_sqrt(a.low[0]), __builtin_sqrt(a.low[1])}, F64{__builtin_sqrt(a.high[0]), __builtin_sqrt(a.high[1])}};
    }
    static HUSHVEC_INLINE F64Pair widen(F32 v) { return {F64{double{v[0]}, double{v[1]}}, F64{double{v[2]}, double{v[3]}}}; }
    static HUSHVEC_INLINE F64Pair load_widened(const float* p) { return widen(load(p)); }
    static HUSHVEC_INLINE F32 narrow(F64Pair v) {
        return F32{static_cast<float>(v.low[0]), static_cast<float>(v.low[1]), static_cast<float>(v.high[0]), static_cast<float>(v.high[1])};
    }
    static HUSHVEC_INLINE void store_widened(double* p, F32 v) { store(p, widen(v)); }
    static HUSHVEC_INLINE F64Pair widen_signed(U32 a) {
        typedef std::int32_t Half __attribute__((vector_size(8)));   // GCC 12 fails on the elements taken one by one
        struct Halves {
            Half low, high;
        };
        const auto halves = reinterpret<Halves>(a);
        return {__builtin_convertvector(halves.low, F64), __builtin_convertvector(halves.high, F64)};
    }

    // 64-bit integers made of two words each, in the order of the words.
    struct U64Pair {
        U64 low, high;
    };
    static HUSHVEC_INLINE U64Pair zip(U32 low_words, U32 high_words) {
        return {U64{high_words[0], high_words[1]} << 32 | U64{low_words[0], low_words[1]},
                U64{high_words[2], high_words[3]} << 32 | U64{low_words[2], low_words[3]}};
    }
    static HUSHVEC_INLINE F64Pair unzip(F64Pair v) { return v; }
    static HUSHVEC_INLINE U64Pair shift_left(U64Pair a, U64Pair count) {   // count < 64
        return {a.low << count.low, a.high << count.high};
    }
    static HUSHVEC_INLINE F64Pair to_double_signed(U64Pair a) { return {to_double_signed(a.low), to_double_signed(a.high)}; }
    static HUSHVEC_INLINE F64Pair exponent_times_two_ln2(U64Pair exponent) {
        return mul(to_double_signed(exponent), set(1.3862943611198906188));
    }
    static HUSHVEC_INLINE F64Pair flip_sign(F64Pair value, U64Pair word) {
        return {flip_sign(value.low, word.low), flip_sign(value.high, word.high)};
    }
    // a where the top bit of `word` is set, b elsewhere.
    static HUSHVEC_INLINE F64Pair choose(U64Pair word, F64Pair a, F64Pair b) {
        return {choose(word.low, a.low, b.low), choose(word.high, a.high, b.high)};
    }

    static HUSHVEC_INLINE F32 load_float16(const std::uint16_t* p) {
        return F32{float16_to_float(p[0]), float16_to_float(p[1]), float16_to_float(p[2]), float16_to_float(p[3])};
    }
    static HUSHVEC_INLINE void store_float16(std::uint16_t* p, F32 v) {
        for (std::size_t l = 0; l < lanes; ++l) p[l] = float_to_float16(v[l]);
    }

private:
    // Vectors of 64-bit integers seldom convert in one instruction. A word in the low bits of the significand of 2^52 adds its
    // value; one in the significand of 2^84 adds 2^32 times its value. The difference is exact, the sum rounds once.
    static HUSHVEC_INLINE F64 to_double_signed(U64 a) {
        constexpr double low_base = 0x1p52, high_base = 0x1p84 + 0x1p63;   // the bit of 2^63: the sign, flipped
        const F64 low = reinterpret<F64>((a & 0xFFFFFFFFu) | std::bit_cast<std::uint64_t>(low_base));
        const F64 high = reinterpret<F64>((a >> 32) ^ std::bit_cast<std::uint64_t>(high_base));
        return (high - (high_base + low_base)) + low;
    }
    static HUSHVEC_INLINE F64 flip_sign(F64 value, U64 word) {
        return reinterpret<F64>(reinterpret<U64>(value) ^ (word & (std::uint64_t{1} << 63)));
    }
    static HUSHVEC_INLINE F64 choose(U64 word, F64 a, F64 b) {
        const U64 take_a = reinterpret<U64>(reinterpret<I64>(word) < 0);
        return reinterpret<F64>((reinterpret<U64>(a) & take_a) | (reinterpret<U64>(b) & ~take_a));
    }
    template <class To, class From>
    static HUSHVEC_INLINE To reinterpret(From v) { return std::bit_cast<To>(v); }
    static HUSHVEC_INLINE std::uint32_t zeros(std::uint32_t word) { return static_cast<std::uint32_t>(std::countl_zero(word | 1u)); }
};

}  // namespace hushvec
