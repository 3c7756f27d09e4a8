// How array elements are stored and what the arithmetic sees of them: float for the 16- and 32-bit formats, double for float64.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "hushvec/array.hpp"
#include "lanes/float16.hpp"
#include "lanes/inline.hpp"

#if defined(__CUDACC__)
#include <cuda_fp16.h>
#endif

namespace hushvec::cuda {

struct Float16 {
    std::uint16_t bits;
};
struct Bfloat16 {
    std::uint16_t bits;
};

HUSHVEC_INLINE float widened(float stored) { return stored; }
HUSHVEC_INLINE double widened(double stored) { return stored; }
HUSHVEC_INLINE float widened(Bfloat16 stored) { return bfloat16_to_float(stored.bits); }
HUSHVEC_INLINE float widened(Float16 stored) {
#if defined(__CUDA_ARCH__)
    return __half2float(__ushort_as_half(stored.bits));
#else
    return float16_to_float(stored.bits);
#endif
}

// The type of X for rows of `Stored`.
template <class Stored>
using Wide = decltype(widened(Stored{}));

HUSHVEC_INLINE std::uint16_t nearest_float16(float finite) {
#if defined(__CUDA_ARCH__)
    return __half_as_ushort(__float2half_rn(finite));
#else
    return float_to_float16(finite);
#endif
}

HUSHVEC_INLINE std::uint16_t nearest_bfloat16(float finite) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    std::uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(finite));
    return bits;
#else
    return float_to_bfloat16(finite);
#endif
}

HUSHVEC_INLINE float clamped(float value, float largest) { return std::fmin(std::fmax(value, -largest), largest); }

// To nearest even; the 16-bit formats saturate at their largest finite value.
template <class Stored>
HUSHVEC_INLINE Stored narrowed(Wide<Stored> value) {
    if constexpr (sizeof(Stored) > 2) {
        return value;
    } else if constexpr (std::is_same_v<Stored, Bfloat16>) {
        return {nearest_bfloat16(clamped(value, bfloat16_to_float(kLargestBfloat16)))};
    } else {
        return {nearest_float16(clamped(value, 65504.0f))};
    }
}

// Towards zero: where the nearest 16-bit value is the larger in magnitude, the one below it.
template <class Stored>
HUSHVEC_INLINE Stored narrowed_toward_zero(Wide<Stored> value) {
    Stored result = narrowed<Stored>(value);
    if constexpr (sizeof(Stored) == 2) {
        const float back = widened(result);
        if ((back < 0 ? -back : back) > (value < 0 ? -value : value)) --result.bits;
    }
    return result;
}

// Calls visit(Stored{}) with the stored type of a dtype.
template <class Visit>
auto with_stored_type(DType dtype, Visit visit) {
    switch (dtype) {
        case DType::float64: return visit(double{});
        case DType::float16: return visit(Float16{});
        case DType::bfloat16: return visit(Bfloat16{});
        case DType::int8:   // no array on a device has it
        case DType::float32: break;
    }
    return visit(float{});
}

}  // namespace hushvec::cuda
