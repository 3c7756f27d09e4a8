// Eight lanes of AVX2 with FMA and F16C: the names the algorithms are written in.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace hushvec {

struct Avx2 {
    static constexpr std::size_t lanes = 8;
    using U32 = __m256i;
    using F32 = __m256;
    using Mask = __m256;   // all bits or none in each lane

    static U32 load(const std::uint32_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
    static F32 load(const float* p) { return _mm256_loadu_ps(p); }
    static void store(std::uint32_t* p, U32 v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
    static void store(float* p, F32 v) { _mm256_storeu_ps(p, v); }

    static U32 set(std::uint32_t x) { return _mm256_set1_epi32(static_cast<int>(x)); }
    static F32 set(float x) { return _mm256_set1_ps(x); }
    static U32 count_up() { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }

    static U32 add(U32 a, U32 b) { return _mm256_add_epi32(a, b); }
    static U32 sub(U32 a, U32 b) { return _mm256_sub_epi32(a, b); }
    static U32 bit_xor(U32 a, U32 b) { return _mm256_xor_si256(a, b); }
    static U32 bit_and(U32 a, U32 b) { return _mm256_and_si256(a, b); }
    static U32 bit_or(U32 a, U32 b) { return _mm256_or_si256(a, b); }
    // Rotations by whole bytes are one shuffle; the others are two shifts.
    template <int Bits> static U32 rotate_left(U32 a) {
        if constexpr (Bits == 16) {
            return _mm256_shuffle_epi8(a, _mm256_setr_epi8(2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13,
                                                           2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
        } else if constexpr (Bits == 8) {
            return _mm256_shuffle_epi8(a, _mm256_setr_epi8(3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14,
                                                           3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14));
        } else {
            return _mm256_or_si256(_mm256_slli_epi32(a, Bits), _mm256_srli_epi32(a, 32 - Bits));
        }
    }
    template <int Bits> static U32 shift_left(U32 a) { return _mm256_slli_epi32(a, Bits); }
    template <int Bits> static U32 shift_right(U32 a) { return _mm256_srli_epi32(a, Bits); }
    template <int Bits> static U32 shift_right_signed(U32 a) { return _mm256_srai_epi32(a, Bits); }
    static U32 shift_left(U32 a, U32 count) { return _mm256_sllv_epi32(a, count); }
    // AVX2 does not count zeros: read them off the exponent of the word as a float. Clearing each bit that follows a
    // set bit keeps the conversion from rounding up to the next power of two.
    static U32 leading_zeros(U32 a) {
        const U32 half = _mm256_srli_epi32(a, 1);   // signed conversion: the top bit must be clear
        const U32 truncated = _mm256_andnot_si256(_mm256_srli_epi32(half, 1), half);
        const U32 biased = _mm256_srli_epi32(_mm256_castps_si256(_mm256_cvtepi32_ps(truncated)), 23);
        return _mm256_min_epu32(_mm256_sub_epi32(set(127u + 30u), biased), set(31u));
    }

    static F32 to_float_signed(U32 a) { return _mm256_cvtepi32_ps(a); }
    static U32 bits_of(F32 a) { return _mm256_castps_si256(a); }
    static F32 of_bits(U32 a) { return _mm256_castsi256_ps(a); }
    static F32 exponent_times_two_ln2(U32 exponent) {
        return _mm256_mul_ps(_mm256_cvtepi32_ps(exponent), set(1.3862943611198906188f));
    }
    // value ^ (word & sign bit): the sign of `word`'s top bit goes onto `value`.
    static F32 flip_sign(F32 value, U32 word) {
        return _mm256_xor_ps(value, _mm256_and_ps(_mm256_castsi256_ps(word), set(-0.0f)));
    }

    static F32 add(F32 a, F32 b) { return _mm256_add_ps(a, b); }
    static F32 sub(F32 a, F32 b) { return _mm256_sub_ps(a, b); }
    static F32 mul(F32 a, F32 b) { return _mm256_mul_ps(a, b); }
    static F32 multiply_add(F32 a, F32 b, F32 c) { return _mm256_fmadd_ps(a, b, c); }
    static F32 negative_multiply_add(F32 a, F32 b, F32 c) { return _mm256_fnmadd_ps(a, b, c); }
    static F32 sqrt(F32 a) { return _mm256_sqrt_ps(a); }
    static F32 magnitude(F32 a) { return _mm256_andnot_ps(set(-0.0f), a); }
    static F32 larger_magnitude(F32 a, F32 b) { return _mm256_max_ps(magnitude(a), magnitude(b)); }
    // a, or where |a| > limit the limit with the sign of a; some number in [-limit, limit] for NaN.
    static F32 limit_magnitude(F32 a, F32 limit) {
        return _mm256_min_ps(_mm256_max_ps(a, _mm256_xor_ps(limit, set(-0.0f))), limit);   // of a NaN the second operand stays
    }
    static U32 to_integer(F32 a) { return _mm256_cvttps_epi32(a); }   // towards zero; |a| < 2^31
    // The sum of each vector's lanes, halved as a tree: lane l and lane l + 4 first.
    static void sums_of_lanes(const F32 (&v)[4], float (&sums)[4]) {
        const __m128 a = halved(v[0]), b = halved(v[1]), c = halved(v[2]), d = halved(v[3]);
        const __m128 ab = _mm_add_ps(_mm_movelh_ps(a, b), _mm_movehl_ps(b, a));
        const __m128 cd = _mm_add_ps(_mm_movelh_ps(c, d), _mm_movehl_ps(d, c));
        _mm_storeu_ps(sums, _mm_add_ps(_mm_shuffle_ps(ab, cd, 0b10001000), _mm_shuffle_ps(ab, cd, 0b11011101)));
    }

    static Mask not_less(F32 a, F32 b) { return _mm256_cmp_ps(a, b, _CMP_NLT_UQ); }   // true for NaN
    // Unsigned a > b: not (max(a, b) == b).
    static Mask greater(U32 a, U32 b) {
        const U32 at_most = _mm256_cmpeq_epi32(_mm256_max_epu32(a, b), b);
        return _mm256_castsi256_ps(_mm256_xor_si256(at_most, _mm256_set1_epi32(-1)));
    }
    static Mask greater_signed(U32 a, U32 b) { return _mm256_castsi256_ps(_mm256_cmpgt_epi32(a, b)); }
    static F32 select(Mask m, F32 a, F32 b) { return _mm256_blendv_ps(b, a, m); }   // a where the mask is set, else b
    static Mask mask_or(Mask a, Mask b) { return _mm256_or_ps(a, b); }
    static bool any(Mask m) { return _mm256_movemask_ps(m) != 0; }
    static std::uint32_t bits(Mask m) { return static_cast<std::uint32_t>(_mm256_movemask_ps(m)); }

    // Sixteen numbers, looked up by the low four bits of each lane.
    class Table16 {
    public:
        explicit Table16(const float* numbers) : low_(load(numbers)), high_(load(numbers + 8)) {}
        F32 at(U32 index) const {
            const F32 from_low = _mm256_permutevar8x32_ps(low_, index), from_high = _mm256_permutevar8x32_ps(high_, index);
            return _mm256_blendv_ps(from_low, from_high, of_bits(_mm256_slli_epi32(index, 28)));
        }

    private:
        F32 low_, high_;
    };

    // float64, as many lanes as F32 in two halves
    struct F64Pair {
        __m256d low, high;
    };
    static F64Pair load(const double* p) { return {_mm256_loadu_pd(p), _mm256_loadu_pd(p + 4)}; }
    static void store(double* p, F64Pair v) {
        _mm256_storeu_pd(p, v.low);
        _mm256_storeu_pd(p + 4, v.high);
    }
    static F64Pair zero_pair() { return {_mm256_setzero_pd(), _mm256_setzero_pd()}; }
    static F64Pair add(F64Pair a, F64Pair b) { return {_mm256_add_pd(a.low, b.low), _mm256_add_pd(a.high, b.high)}; }
    static F64Pair sub(F64Pair a, F64Pair b) { return {_mm256_sub_pd(a.low, b.low), _mm256_sub_pd(a.high, b.high)}; }
    static F64Pair mul(F64Pair a, F64Pair b) { return {_mm256_mul_pd(a.low, b.low), _mm256_mul_pd(a.high, b.high)}; }
    static F64Pair set(double x) { return {_mm256_set1_pd(x), _mm256_set1_pd(x)}; }
    static F64Pair multiply_add(F64Pair a, F64Pair b, F64Pair c) {
        return {_mm256_fmadd_pd(a.low, b.low, c.low), _mm256_fmadd_pd(a.high, b.high, c.high)};
    }
    static F64Pair sqrt(F64Pair a) { return {_mm256_sqrt_pd(a.low), _mm256_sqrt_pd(a.high)}; }
    static F64Pair widen(F32 v) {
        return {_mm256_cvtps_pd(_mm256_castps256_ps128(v)), _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1))};
    }
    static F64Pair load_widened(const float* p) {
        return {_mm256_cvtps_pd(_mm_loadu_ps(p)), _mm256_cvtps_pd(_mm_loadu_ps(p + 4))};
    }
    static F32 narrow(F64Pair v) {
        return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(v.low)), _mm256_cvtpd_ps(v.high), 1);
    }
    static void store_widened(double* p, F32 v) { store(p, widen(v)); }
    static F64Pair widen_signed(U32 a) {
        return {_mm256_cvtepi32_pd(_mm256_castsi256_si128(a)), _mm256_cvtepi32_pd(_mm256_extracti128_si256(a, 1))};
    }

    // 64-bit integers made of two words each, in the order that unpacking leaves; `unzip` restores the order of the words.
    struct U64Pair {
        __m256i low, high;
    };
    static U64Pair zip(U32 low_words, U32 high_words) {
        return {_mm256_unpacklo_epi32(low_words, high_words), _mm256_unpackhi_epi32(low_words, high_words)};
    }
    static F64Pair unzip(F64Pair v) {
        return {_mm256_permute2f128_pd(v.low, v.high, 0x20), _mm256_permute2f128_pd(v.low, v.high, 0x31)};
    }
    static U64Pair shift_left(U64Pair a, U64Pair count) {
        return {_mm256_sllv_epi64(a.low, count.low), _mm256_sllv_epi64(a.high, count.high)};
    }
    static F64Pair to_double_signed(U64Pair a) { return {to_double_signed(a.low), to_double_signed(a.high)}; }
    static F64Pair exponent_times_two_ln2(U64Pair exponent) {
        const F64Pair base = set(0x1p52);
        const F64Pair above_base = {_mm256_or_pd(_mm256_castsi256_pd(exponent.low), base.low),
                                    _mm256_or_pd(_mm256_castsi256_pd(exponent.high), base.high)};
        return mul(sub(above_base, base), set(1.3862943611198906188));
    }
    static F64Pair flip_sign(F64Pair value, U64Pair word) { return {flip_sign(value.low, word.low), flip_sign(value.high, word.high)}; }
    // a where the top bit of `word` is set, b elsewhere.
    static F64Pair choose(U64Pair word, F64Pair a, F64Pair b) {
        return {_mm256_blendv_pd(b.low, a.low, _mm256_castsi256_pd(word.low)),
                _mm256_blendv_pd(b.high, a.high, _mm256_castsi256_pd(word.high))};
    }

    static F32 load_float16(const std::uint16_t* p) {
        return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    }
    static void store_float16(std::uint16_t* p, F32 v) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }

private:
    static __m128 halved(__m256 v) { return _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1)); }
    // AVX2 does not convert 64-bit integers. A word in the low bits of the significand of 2^52 adds its value; one in the
    // significand of 2^84 adds 2^32 times its value. The difference is exact, the sum rounds once.
    static __m256d to_double_signed(__m256i a) {
        const __m256i low_base = _mm256_castpd_si256(_mm256_set1_pd(0x1p52));
        const __m256i high_base = _mm256_castpd_si256(_mm256_set1_pd(0x1p84 + 0x1p63));   // the bit of 2^63: the sign, flipped
        const __m256d low = _mm256_castsi256_pd(_mm256_blend_epi32(a, low_base, 0b10101010));
        const __m256d high = _mm256_castsi256_pd(_mm256_xor_si256(_mm256_srli_epi64(a, 32), high_base));
        return _mm256_add_pd(_mm256_sub_pd(high, _mm256_set1_pd(0x1p84 + 0x1p63 + 0x1p52)), low);
    }
    static __m256d flip_sign(__m256d value, __m256i word) {
        return _mm256_xor_pd(value, _mm256_and_pd(_mm256_castsi256_pd(word), _mm256_set1_pd(-0.0)));
    }
};

}  // namespace hushvec
