// Level 0 of exact noise of version 3 on a device: what a half word leaves open is an interval of u and, for pairs, one of the
// angle (docs/format.md section 16). Threads work with its middle, by the device's special functions, and with a limit on |d|
// that allows for its ends. What |d| does not decide is listed, and refine_body.hpp has sixteen bits more of it.
//
//   Gaussian   W1 + 1/2 = 2^16 u     v = -2 ln(2) s^2 log2(u),  r = v / sqrt(v)
//              |d| < 1/2 - constant - per_interval s^2 / (r W1) - per_radius r
//   Laplace    odd = 2^16 u          r = -ln(2) s log2(u)
//              |d| < 1/2 - constant - per_interval s / (odd - 1) - per_radius r
//
// The interval's own width is what its lower end divides by, so that the first interval, which reaches 0, is always open.
// docs/proofs/level1_bound.md derives the bounds; check_device_bounds measures them.
#pragma once

#include <bit>
#include <cstdint>

#include "device/special_functions.hpp"
#include "device/thread_lane.hpp"
#include "noise/exact_round.hpp"

namespace hushvec::cuda {

struct LevelZeroBound {
    float constant;
    float per_interval;   // of the radius, or of Laplace the magnitude
    float per_radius;     // its relative error, the angle's interval and error, rounding of X - n
};

inline constexpr LevelZeroBound kGaussianLevelZeroBound = {1.5e-7f, 0.527f, 4.93e-5f};
// Next to u = 1 a radius is hardly larger than its interval is wide.
inline constexpr std::uint32_t kLargestLevelZeroWord = 0xFFFFFFFFu - (4u << 16);
inline constexpr LevelZeroBound kLaplaceLevelZeroBound = {1.5e-7f, 1.012f, 4.4e-7f};

// 2^23 plus the word's upper or lower half: bytes put in place, no conversion.
HUSHVEC_INLINE float above_2_23(std::uint32_t word, bool upper) {
#if defined(__CUDA_ARCH__)
    return __uint_as_float(__byte_perm(word, 0x4B000000u, upper ? 0x7632 : 0x7610));
#else
    return std::bit_cast<float>(0x4B000000u | (upper ? word >> 16 : word & 0xffffu));
#endif
}

template <class Functions>
struct DeviceHalfPair {
    float r, inverse_r, cosine, sine;   // of the middles, r = s * radius; the half turn of the angle is left to the caller
    float above;                        // 2^23 + W1

    // minus_two_ln2_s2: -2 ln(2) s^2.
    HUSHVEC_INLINE DeviceHalfPair(float minus_two_ln2_s2, std::uint32_t word) : above(above_2_23(word, true)) {
        const float u = Thread::multiply_add(above, 0x1p-16f, -0x1p7f + 0x1p-17f);   // exact
        const float square = minus_two_ln2_s2 * Functions::log2(u);
        inverse_r = Functions::inverse_root(square);
        r = square * inverse_r;
        constexpr double kPi = 0x1.921fb54442d18p+1;
        constexpr auto kStep = static_cast<float>(kPi * 0x1p-32), kHalfWidth = static_cast<float>(kPi * 0x1p-16);
        const float angle = Thread::multiply_add(Thread::to_float_signed(word << 17), kStep, kHalfWidth);
        cosine = Functions::cosine(angle);
        sine = Functions::sine(angle);
    }
};

struct GaussianLevelZero {
    float s;
    float minus_two_ln2_s2;
    float limit_at_zero;
    float per_radius;
    float share, offset;   // W1 share: the reciprocal of what 1 / r is multiplied by

    explicit GaussianLevelZero(float scale_in_grids, const LevelZeroBound& bound = kGaussianLevelZeroBound)
        : GaussianLevelZero(scale_in_grids, double{scale_in_grids} * double{scale_in_grids}, bound) {}

    struct Rounding {
        LanePair<Thread> n;
        bool open;   // either of them
    };

    template <class Functions = SpecialFunctions, class Elements>
    HUSHVEC_INLINE Rounding round(std::uint32_t word, Elements x_cosine, Elements x_sine) const {
        const DeviceHalfPair<Functions> normal(minus_two_ln2_s2, word);
        const float interval = Functions::reciprocal(Thread::multiply_add(normal.above, share, offset));   // infinite for W1 = 0
        const float limit = Thread::negative_multiply_add(
            normal.r, per_radius, Thread::negative_multiply_add(normal.inverse_r, interval, limit_at_zero));
        const float r = Thread::flip_sign(normal.r, word << 16);

        const float n_cosine = nearest_integer<Thread>(Thread::multiply_add(r, normal.cosine, x_cosine.as_float()));
        const float n_sine = nearest_integer<Thread>(Thread::multiply_add(r, normal.sine, x_sine.as_float()));
        const float d_cosine = Thread::multiply_add(r, normal.cosine, x_cosine.minus(n_cosine));
        const float d_sine = Thread::multiply_add(r, normal.sine, x_sine.minus(n_sine));
        const bool open = Thread::not_less(Thread::larger_magnitude(d_cosine, d_sine), limit) || word > kLargestLevelZeroWord;
        return {{n_cosine, n_sine}, open};
    }

private:
    GaussianLevelZero(float scale_in_grids, double s2, const LevelZeroBound& bound)
        : s(scale_in_grids), minus_two_ln2_s2(static_cast<float>(-1.38629436111989061883 * s2)), limit_at_zero(0.5f - bound.constant),
          per_radius(bound.per_radius), share(static_cast<float>(1 / (double{bound.per_interval} * s2))), offset(-0x1p23f * share) {}
};

struct LaplaceLevelZero {
    float s;
    float minus_ln2_s;
    float limit_at_zero;
    float per_interval_s;
    float per_radius;

    explicit LaplaceLevelZero(float scale_in_grids, const LevelZeroBound& bound = kLaplaceLevelZeroBound)
        : s(scale_in_grids), minus_ln2_s(static_cast<float>(-0.69314718055994530942 * double{scale_in_grids})),
          limit_at_zero(0.5f - bound.constant), per_interval_s(bound.per_interval * scale_in_grids), per_radius(bound.per_radius) {}

    struct Rounding {
        float n;
        bool open;
    };

    // Of the sample that the word's upper or lower half stands for.
    template <class Functions = SpecialFunctions, class Elements>
    HUSHVEC_INLINE Rounding round(std::uint32_t word, bool upper, Elements x) const {
        const float odd = above_2_23(word | 0x00010001u, upper);
        const float u = Thread::multiply_add(odd, 0x1p-16f, -0x1p7f);   // exact
        const float magnitude = minus_ln2_s * Functions::log2(u);
        const float interval = Functions::reciprocal(odd - (0x1p23f + 1));   // infinite for the first interval
        const float limit = Thread::negative_multiply_add(
            magnitude, per_radius, Thread::negative_multiply_add(interval, per_interval_s, limit_at_zero));
        const float r = with_laplace_sign<Thread>(magnitude, upper ? word >> 16 : word);
        const float n = nearest_integer<Thread>(r + x.as_float());
        const float d = r + x.minus(n);
        return {n, Thread::not_less(Thread::magnitude(d), limit)};
    }
};

}  // namespace hushvec::cuda
