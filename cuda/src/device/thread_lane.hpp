// One lane: a thread of a GPU, or one scalar where the device code runs on the host for its tests.
//
// Every operation is one IEEE operation, correctly rounded on both, except sqrt on the device: sqrt.approx.ftz.f32, whose
// documented relative error is 2^-23 (PTX ISA, "sqrt"). The error bounds below allow for that much; the host's is 2^-24.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "lanes/inline.hpp"
#include "noise/error_bounds.hpp"

namespace hushvec::cuda {

struct Thread {
    static constexpr std::size_t lanes = 1;
    using U32 = std::uint32_t;
    using F32 = float;
    using Mask = bool;

    static HUSHVEC_INLINE U32 load(const std::uint32_t* p) { return *p; }
    static HUSHVEC_INLINE F32 load(const float* p) { return *p; }
    static HUSHVEC_INLINE void store(std::uint32_t* p, U32 v) { *p = v; }
    static HUSHVEC_INLINE void store(float* p, F32 v) { *p = v; }

    static HUSHVEC_INLINE U32 set(std::uint32_t x) { return x; }
    static HUSHVEC_INLINE F32 set(float x) { return x; }
    static HUSHVEC_INLINE U32 count_up() { return 0; }

    static HUSHVEC_INLINE U32 add(U32 a, U32 b) { return a + b; }
    static HUSHVEC_INLINE U32 sub(U32 a, U32 b) { return a - b; }
    static HUSHVEC_INLINE U32 bit_and(U32 a, U32 b) { return a & b; }
    static HUSHVEC_INLINE U32 bit_xor(U32 a, U32 b) { return a ^ b; }
    template <int Bits> static HUSHVEC_INLINE U32 rotate_left(U32 a) { return (a << Bits) | (a >> (32 - Bits)); }
    template <int Bits> static HUSHVEC_INLINE U32 shift_left(U32 a) { return a << Bits; }
    template <int Bits> static HUSHVEC_INLINE U32 shift_right(U32 a) { return a >> Bits; }
    static HUSHVEC_INLINE U32 shift_left(U32 a, U32 count) {
#if defined(__CUDA_ARCH__)
        U32 shifted;
        asm("shl.b32 %0, %1, %2;" : "=r"(shifted) : "r"(a), "r"(count));
        return shifted;
#else
        return a << count;
#endif
    }
    // Of 0: 31 on a host, so that the shift that follows is defined; 2^32 - 1 on a device, whose shifts by more than 31 give 0, and the
    // logarithm is NaN. Word 0 lies outside every window, and its tail is worked out anew.
    static HUSHVEC_INLINE U32 leading_zeros(U32 a) {
#if defined(__CUDA_ARCH__)
        U32 count;
        asm("bfind.shiftamt.u32 %0, %1;" : "=r"(count) : "r"(a));
        return count;
#else
        return static_cast<U32>(__builtin_clz(a | 1u));
#endif
    }

    static HUSHVEC_INLINE F32 to_float_signed(U32 a) { return static_cast<float>(static_cast<std::int32_t>(a)); }
    // 2^23 + exponent is a float32 whose bits are at hand: no conversion instruction, of which a device has few. One rounding, as of the
    // product of the exponent alone.
    static HUSHVEC_INLINE F32 exponent_times_two_ln2(U32 exponent) {
        constexpr float kTwoLn2 = 1.3862943611198906188f;
        return fused(as_float(0x4B000000u | exponent), kTwoLn2, -0x1p23f * kTwoLn2);
    }
    // value ^ (word & sign bit): the sign of `word`'s top bit goes onto `value`.
    static HUSHVEC_INLINE F32 flip_sign(F32 value, U32 word) { return as_float(as_bits(value) ^ (word & 0x80000000u)); }

    static HUSHVEC_INLINE F32 add(F32 a, F32 b) { return a + b; }
    static HUSHVEC_INLINE F32 sub(F32 a, F32 b) { return a - b; }
    static HUSHVEC_INLINE F32 mul(F32 a, F32 b) { return a * b; }
    static HUSHVEC_INLINE F32 multiply_add(F32 a, F32 b, F32 c) { return fused(a, b, c); }
    static HUSHVEC_INLINE F32 negative_multiply_add(F32 a, F32 b, F32 c) { return fused(-a, b, c); }
    static HUSHVEC_INLINE F32 sqrt(F32 a) {
#if defined(__CUDA_ARCH__)
        float root;
        asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(a));
        return root;
#else
        return std::sqrt(a);
#endif
    }
    static HUSHVEC_INLINE F32 magnitude(F32 a) { return std::fabs(a); }
    static HUSHVEC_INLINE F32 larger_magnitude(F32 a, F32 b) {
#if defined(__CUDA_ARCH__)
        return fmaxf(magnitude(a), magnitude(b));
#else
        const F32 x = magnitude(a), y = magnitude(b);
        return x > y ? x : y;
#endif
    }

    static HUSHVEC_INLINE Mask not_less(F32 a, F32 b) { return !(a < b); }   // true for NaN
    static HUSHVEC_INLINE Mask greater(U32 a, U32 b) { return a > b; }
    static HUSHVEC_INLINE Mask greater_signed(U32 a, U32 b) { return static_cast<std::int32_t>(a) > static_cast<std::int32_t>(b); }
    static HUSHVEC_INLINE Mask mask_or(Mask a, Mask b) { return a || b; }
    static HUSHVEC_INLINE bool any(Mask m) { return m; }
    static HUSHVEC_INLINE std::uint32_t bits(Mask m) { return m; }

    // float64, as many lanes as F32
    using F64Pair = double;
    static HUSHVEC_INLINE F64Pair load(const double* p) { return *p; }
    static HUSHVEC_INLINE void store(double* p, F64Pair v) { *p = v; }
    static HUSHVEC_INLINE F64Pair zero_pair() { return 0; }
    static HUSHVEC_INLINE F64Pair add(F64Pair a, F64Pair b) { return a + b; }
    static HUSHVEC_INLINE F64Pair sub(F64Pair a, F64Pair b) { return a - b; }
    static HUSHVEC_INLINE F64Pair mul(F64Pair a, F64Pair b) { return a * b; }
    static HUSHVEC_INLINE F64Pair widen(F32 v) { return v; }
    static HUSHVEC_INLINE F32 narrow(F64Pair v) { return static_cast<float>(v); }
    static HUSHVEC_INLINE void store_widened(double* p, F32 v) { *p = v; }

private:
    static HUSHVEC_INLINE float fused(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
        return __fmaf_rn(a, b, c);
#else
        return std::fma(a, b, c);
#endif
    }
    static HUSHVEC_INLINE std::uint32_t as_bits(float v) { return std::bit_cast<std::uint32_t>(v); }
    static HUSHVEC_INLINE float as_float(std::uint32_t v) { return std::bit_cast<float>(v); }
};

}  // namespace hushvec::cuda
