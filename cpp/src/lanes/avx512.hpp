// Sixteen lanes of AVX-512 (F, CD, DQ, BW, VL): the names the algorithms are written in, one instruction each.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace hushvec {

struct Avx512 {
    static constexpr std::size_t lanes = 16;
    using U32 = __m512i;
    using F32 = __m512;
    using Mask = __mmask16;

    static U32 load(const std::uint32_t* p) { return _mm512_loadu_si512(p); }
    static F32 load(const float* p) { return _mm512_loadu_ps(p); }
    static void store(std::uint32_t* p, U32 v) { _mm512_storeu_si512(p, v); }
    static void store(float* p, F32 v) { _mm512_storeu_ps(p, v); }

    static U32 set(std::uint32_t x) { return _mm512_set1_epi32(static_cast<int>(x)); }
    static F32 set(float x) { return _mm512_set1_ps(x); }
    static U32 count_up() { return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }

    static U32 add(U32 a, U32 b) { return _mm512_add_epi32(a, b); }
    static U32 sub(U32 a, U32 b) { return _mm512_sub_epi32(a, b); }
    static U32 bit_xor(U32 a, U32 b) { return _mm512_xor_si512(a, b); }
    static U32 bit_and(U32 a, U32 b) { return _mm512_and_si512(a, b); }
    static U32 bit_or(U32 a, U32 b) { return _mm512_or_si512(a, b); }
    template <int Bits> static U32 rotate_left(U32 a) { return _mm512_rol_epi32(a, Bits); }
    template <int Bits> static U32 shift_left(U32 a) { return _mm512_slli_epi32(a, Bits); }
    template <int Bits> static U32 shift_right(U32 a) { return _mm512_srli_epi32(a, Bits); }
    template <int Bits> static U32 shift_right_signed(U32 a) { return _mm512_srai_epi32(a, Bits); }
    static U32 shift_left(U32 a, U32 count) { return _mm512_sllv_epi32(a, count); }
    static U32 leading_zeros(U32 a) { return _mm512_lzcnt_epi32(a); }

    // 2 ln 2 times 0 .. 31, correctly rounded; one permutation instead of a conversion and a product.
    static F32 exponent_times_two_ln2(U32 exponent) {
        alignas(64) static constexpr float table[32] = {
#define HUSHVEC_ROW(e) static_cast<float>((e) * 1.3862943611198906188)
            HUSHVEC_ROW(0), HUSHVEC_ROW(1), HUSHVEC_ROW(2), HUSHVEC_ROW(3), HUSHVEC_ROW(4), HUSHVEC_ROW(5), HUSHVEC_ROW(6),
            HUSHVEC_ROW(7), HUSHVEC_ROW(8), HUSHVEC_ROW(9), HUSHVEC_ROW(10), HUSHVEC_ROW(11), HUSHVEC_ROW(12), HUSHVEC_ROW(13),
            HUSHVEC_ROW(14), HUSHVEC_ROW(15), HUSHVEC_ROW(16), HUSHVEC_ROW(17), HUSHVEC_ROW(18), HUSHVEC_ROW(19), HUSHVEC_ROW(20),
            HUSHVEC_ROW(21), HUSHVEC_ROW(22), HUSHVEC_ROW(23), HUSHVEC_ROW(24), HUSHVEC_ROW(25), HUSHVEC_ROW(26), HUSHVEC_ROW(27),
            HUSHVEC_ROW(28), HUSHVEC_ROW(29), HUSHVEC_ROW(30), HUSHVEC_ROW(31)
#undef HUSHVEC_ROW
        };
        return _mm512_permutex2var_ps(_mm512_load_ps(table), exponent, _mm512_load_ps(table + 16));
    }
    static F32 to_float_signed(U32 a) { return _mm512_cvtepi32_ps(a); }
    static U32 bits_of(F32 a) { return _mm512_castps_si512(a); }
    static F32 of_bits(U32 a) { return _mm512_castsi512_ps(a); }
    // value ^ (word & sign bit): the sign of `word`'s top bit goes onto `value`.
    static F32 flip_sign(F32 value, U32 word) {
        constexpr int a_xor_b_and_c = 0x78;
        return _mm512_castsi512_ps(
            _mm512_ternarylogic_epi32(_mm512_castps_si512(value), word, set(0x80000000u), a_xor_b_and_c));
    }

    static F32 add(F32 a, F32 b) { return _mm512_add_ps(a, b); }
    static F32 sub(F32 a, F32 b) { return _mm512_sub_ps(a, b); }
    static F32 mul(F32 a, F32 b) { return _mm512_mul_ps(a, b); }
    static F32 multiply_add(F32 a, F32 b, F32 c) { return _mm512_fmadd_ps(a, b, c); }
    static F32 negative_multiply_add(F32 a, F32 b, F32 c) { return _mm512_fnmadd_ps(a, b, c); }
    static F32 sqrt(F32 a) { return _mm512_sqrt_ps(a); }
    static F32 magnitude(F32 a) { return _mm512_abs_ps(a); }
    static F32 larger_magnitude(F32 a, F32 b) { return _mm512_range_ps(a, b, 0b1011); }   // max(|a|, |b|)
    // a, or where |a| > limit the limit with the sign of a; some number in [-limit, limit] for NaN.
    static F32 limit_magnitude(F32 a, F32 limit) { return _mm512_range_ps(a, limit, 0b0010); }
    static U32 to_integer(F32 a) { return _mm512_cvttps_epi32(a); }   // towards zero; |a| < 2^31
    // The sum of each vector's lanes, halved as a tree: lane l and lane l + 8 first.
    static void sums_of_lanes(const F32 (&v)[4], float (&sums)[4]) {
        const __m128 a = quartered(v[0]), b = quartered(v[1]), c = quartered(v[2]), d = quartered(v[3]);
        const __m128 ab = _mm_add_ps(_mm_movelh_ps(a, b), _mm_movehl_ps(b, a));
        const __m128 cd = _mm_add_ps(_mm_movelh_ps(c, d), _mm_movehl_ps(d, c));
        _mm_storeu_ps(sums, _mm_add_ps(_mm_shuffle_ps(ab, cd, 0b10001000), _mm_shuffle_ps(ab, cd, 0b11011101)));
    }

    static Mask not_less(F32 a, F32 b) { return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ); }   // true for NaN
    static Mask greater(U32 a, U32 b) { return _mm512_cmpgt_epu32_mask(a, b); }
    static Mask greater_signed(U32 a, U32 b) { return _mm512_cmpgt_epi32_mask(a, b); }
    static F32 select(Mask m, F32 a, F32 b) { return _mm512_mask_mov_ps(b, m, a); }   // a where the mask is set, else b
    static Mask mask_or(Mask a, Mask b) { return static_cast<Mask>(a | b); }
    static bool any(Mask m) { return m != 0; }
    static std::uint32_t bits(Mask m) { return m; }

    // Sixteen numbers, looked up by the low four bits of each lane.
    class Table16 {
    public:
        explicit Table16(const float* numbers) : numbers_(load(numbers)) {}
        F32 at(U32 index) const { return _mm512_permutexvar_ps(index, numbers_); }

    private:
        F32 numbers_;
    };

    // float64, as many lanes as F32 in two halves
    struct F64Pair {
        __m512d low, high;
    };
    static F64Pair load(const double* p) { return {_mm512_loadu_pd(p), _mm512_loadu_pd(p + 8)}; }
    static void store(double* p, F64Pair v) {
        _mm512_storeu_pd(p, v.low);
        _mm512_storeu_pd(p + 8, v.high);
    }
    static F64Pair zero_pair() { return {_mm512_setzero_pd(), _mm512_setzero_pd()}; }
    static F64Pair add(F64Pair a, F64Pair b) { return {_mm512_add_pd(a.low, b.low), _mm512_add_pd(a.high, b.high)}; }
    static F64Pair sub(F64Pair a, F64Pair b) { return {_mm512_sub_pd(a.low, b.low), _mm512_sub_pd(a.high, b.high)}; }
    static F64Pair mul(F64Pair a, F64Pair b) { return {_mm512_mul_pd(a.low, b.low), _mm512_mul_pd(a.high, b.high)}; }
    static F64Pair set(double x) { return {_mm512_set1_pd(x), _mm512_set1_pd(x)}; }
    static F64Pair multiply_add(F64Pair a, F64Pair b, F64Pair c) {
        return {_mm512_fmadd_pd(a.low, b.low, c.low), _mm512_fmadd_pd(a.high, b.high, c.high)};
    }
    static F64Pair sqrt(F64Pair a) { return {_mm512_sqrt_pd(a.low), _mm512_sqrt_pd(a.high)}; }
    static F64Pair widen(F32 v) {
        return {_mm512_cvtps_pd(_mm512_castps512_ps256(v)), _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1))};
    }
    // Two half loads convert on the way in; splitting a loaded register would cost a shuffle.
    static F64Pair load_widened(const float* p) {
        return {_mm512_cvtps_pd(_mm256_loadu_ps(p)), _mm512_cvtps_pd(_mm256_loadu_ps(p + 8))};
    }
    // Lanes that are copied on the way, each read once: the compiler may not go back to memory, where another thread may have written.
    static F64Pair copy_widened(const float* from, float* to) {
        __m256 low = _mm256_loadu_ps(from), high = _mm256_loadu_ps(from + 8);
        asm volatile("" : "+v"(low), "+v"(high));
        _mm256_storeu_ps(to, low);
        _mm256_storeu_ps(to + 8, high);
        return {_mm512_cvtps_pd(low), _mm512_cvtps_pd(high)};
    }
    static F32 narrow(F64Pair v) {
        return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(v.low)), _mm512_cvtpd_ps(v.high), 1);
    }
    static void store_widened(double* p, F32 v) { store(p, widen(v)); }
    static F64Pair widen_signed(U32 a) {
        return {_mm512_cvtepi32_pd(_mm512_castsi512_si256(a)), _mm512_cvtepi32_pd(_mm512_extracti32x8_epi32(a, 1))};
    }

    // 64-bit integers made of two words each, in the order that unpacking leaves; `unzip` restores the order of the words.
    struct U64Pair {
        __m512i low, high;
    };
    static U64Pair zip(U32 low_words, U32 high_words) {
        return {_mm512_unpacklo_epi32(low_words, high_words), _mm512_unpackhi_epi32(low_words, high_words)};
    }
    static F64Pair unzip(F64Pair v) {
        return {_mm512_permutex2var_pd(v.low, _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), v.high),
                _mm512_permutex2var_pd(v.low, _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15), v.high)};
    }
    static U64Pair shift_left(U64Pair a, U64Pair count) {
        return {_mm512_sllv_epi64(a.low, count.low), _mm512_sllv_epi64(a.high, count.high)};
    }
    static F64Pair to_double_signed(U64Pair a) { return {_mm512_cvtepi64_pd(a.low), _mm512_cvtepi64_pd(a.high)}; }
    // 2 ln 2 times 0 .. 15, correctly rounded.
    static F64Pair exponent_times_two_ln2(U64Pair exponent) {
        alignas(64) static constexpr double table[16] = {
#define HUSHVEC_ROW(e) static_cast<double>((e) * 1.386294361119890618834464242916353L)
            HUSHVEC_ROW(0), HUSHVEC_ROW(1), HUSHVEC_ROW(2), HUSHVEC_ROW(3), HUSHVEC_ROW(4), HUSHVEC_ROW(5),
            HUSHVEC_ROW(6), HUSHVEC_ROW(7), HUSHVEC_ROW(8), HUSHVEC_ROW(9), HUSHVEC_ROW(10), HUSHVEC_ROW(11),
            HUSHVEC_ROW(12), HUSHVEC_ROW(13), HUSHVEC_ROW(14), HUSHVEC_ROW(15)
#undef HUSHVEC_ROW
        };
        const __m512d first = _mm512_load_pd(table), second = _mm512_load_pd(table + 8);
        return {_mm512_permutex2var_pd(first, exponent.low, second), _mm512_permutex2var_pd(first, exponent.high, second)};
    }
    static F64Pair flip_sign(F64Pair value, U64Pair word) { return {flip_sign(value.low, word.low), flip_sign(value.high, word.high)}; }
    // a where the top bit of `word` is set, b elsewhere.
    static F64Pair choose(U64Pair word, F64Pair a, F64Pair b) {
        return {_mm512_mask_blend_pd(_mm512_movepi64_mask(word.low), b.low, a.low),
                _mm512_mask_blend_pd(_mm512_movepi64_mask(word.high), b.high, a.high)};
    }

    static F32 load_float16(const std::uint16_t* p) {
        return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    }
    static void store_float16(std::uint16_t* p, F32 v) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }

private:
    static __m128 quartered(__m512 v) {
        const __m256 halved = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
        return _mm_add_ps(_mm256_castps256_ps128(halved), _mm256_extractf128_ps(halved, 1));
    }
    static __m512d flip_sign(__m512d value, __m512i word) {
        constexpr int a_xor_b_and_c = 0x78;
        const __m512i top_bit = _mm512_castpd_si512(_mm512_set1_pd(-0.0));
        return _mm512_castsi512_pd(_mm512_ternarylogic_epi64(_mm512_castpd_si512(value), word, top_bit, a_xor_b_and_c));
    }
};

}  // namespace hushvec
