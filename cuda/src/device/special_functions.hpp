// The device's own approximations of logarithm, reciprocal, reciprocal root, sine and cosine: one instruction each, a few bits
// short of float32.
//
// Their documented errors (PTX ISA, section "Floating point instructions") are part of what level 1 rests on: device/level_one.hpp.
// On the host, where the device code runs for its tests, they are the correctly rounded functions.
#pragma once

#include <cmath>

#include "lanes/inline.hpp"

namespace hushvec::cuda {

struct SpecialFunctions {
    // lg2.approx.ftz.f32: 2^-22 absolute in (0.5, 2), 2^-22 relative outside.
    static constexpr double kLog2Error = 0x1p-22;
    // rsqrt.approx.ftz.f32: 2^-22.9 relative.
    static constexpr double kInverseRootError = 1.28e-7;
    // rcp.approx.ftz.f32: 2^-23 relative.
    static constexpr double kReciprocalError = 0x1p-23;
    // sin.approx.ftz.f32 and cos.approx.ftz.f32: 2^-20.5 absolute in [-2 pi, 2 pi].
    static constexpr double kSineError = 6.75e-7;

    static HUSHVEC_INLINE float log2(float a) {
#if defined(__CUDA_ARCH__)
        float y;
        asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(a));
        return y;
#else
        return static_cast<float>(std::log2(double{a}));
#endif
    }
    static HUSHVEC_INLINE float reciprocal(float a) {
#if defined(__CUDA_ARCH__)
        float y;
        asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(a));
        return y;
#else
        return 1 / a;
#endif
    }
    static HUSHVEC_INLINE float inverse_root(float a) {
#if defined(__CUDA_ARCH__)
        float y;
        asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(a));
        return y;
#else
        return static_cast<float>(1 / std::sqrt(double{a}));
#endif
    }
    static HUSHVEC_INLINE float sine(float a) {
#if defined(__CUDA_ARCH__)
        float y;
        asm("sin.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(a));
        return y;
#else
        return static_cast<float>(std::sin(double{a}));
#endif
    }
    static HUSHVEC_INLINE float cosine(float a) {
#if defined(__CUDA_ARCH__)
        float y;
        asm("cos.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(a));
        return y;
#else
        return static_cast<float>(std::cos(double{a}));
#endif
    }
};

}  // namespace hushvec::cuda
