// Level 1 of the exact grade on a device: noise/exact_round.hpp's test, on a radius, an angle and a logarithm from the device's special
// functions.
//
//   Gaussian   v = -2 ln(2) s^2 log2(u),  r = s * radius = v / sqrt(v)
//   Laplace    r = s * |Z| = -ln(2) s log2(u)                              u = word / 2^32
//
// They are some bits worse than the CPU's polynomials, so that 7 samples in 10,000 go down the ladder instead of 3. What is released is the
// same: E covers every error. docs/proofs/level1_bound.md derives it, check_device_bounds measures it.
#pragma once

#include <cstddef>
#include <limits>

#include "device/special_functions.hpp"
#include "device/thread_lane.hpp"
#include "noise/combination_sum.hpp"
#include "noise/error_bounds.hpp"
#include "noise/exact_round.hpp"

namespace hushvec::cuda {

// E = constant + per_inverse_radius s / radius + per_radius s radius, for words from `smallest` on.
struct DeviceGaussianBound {
    float constant;
    float per_inverse_radius;   // absolute error of the radius' square
    float per_radius;           // relative error of the radius, absolute error of cosine and sine, rounding of X - n
    std::uint32_t smallest;     // below it the word's interval is too wide
};

inline constexpr DeviceGaussianBound kGaussianBound = {1.5e-7f, 4.6e-7f, 1.65e-6f, 1u << 18};

inline constexpr ErrorBound kLaplaceBound = {1.5e-7f, 2.3e-7f, 1.25e-6f};   // window: kLaplaceWindow

template <class Functions>
struct DeviceNormalPair {
    float r, inverse_r, cosine, sine;   // r = s * radius; the half turn of the angle is left to the caller, as in NormalPair

    // minus_two_ln2_s2: -2 ln(2) s^2.
    HUSHVEC_INLINE DeviceNormalPair(float minus_two_ln2_s2, std::uint32_t radius_word, std::uint32_t angle_word) {
        const float square = minus_two_ln2_s2 * Functions::log2(static_cast<float>(radius_word) * 0x1p-32f);
        inverse_r = Functions::inverse_root(square);
        r = square * inverse_r;
        const float angle = Thread::to_float_signed(angle_word << 1) * static_cast<float>(0x1.921fb54442d18p+1 * 0x1p-32);
        cosine = Functions::cosine(angle);
        sine = Functions::sine(angle);
    }
};

struct GaussianLevelOne {
    float s;
    float minus_two_ln2_s2;
    float limit_at_zero;
    float per_radius;
    float per_inverse_r;
    std::uint32_t smallest;

    explicit GaussianLevelOne(float scale_in_grids, const DeviceGaussianBound& bound = kGaussianBound)
        : s(scale_in_grids), minus_two_ln2_s2(static_cast<float>(-1.38629436111989061883 * double{scale_in_grids} * double{scale_in_grids})),
          limit_at_zero(0.5f - bound.constant), per_radius(bound.per_radius),
          per_inverse_r(bound.per_inverse_radius * scale_in_grids * scale_in_grids), smallest(bound.smallest) {}

    struct Rounding {
        LanePair<Thread> n;
        bool open;   // either of them
    };

    template <class Functions = SpecialFunctions, class Elements>
    HUSHVEC_INLINE Rounding round(std::uint32_t radius_word, std::uint32_t angle_word, Elements x_cosine, Elements x_sine) const {
        const DeviceNormalPair<Functions> normal(minus_two_ln2_s2, radius_word, angle_word);
        // A word near 2^32 has a square near 0, or below: then the limit is NaN or negative, and the pair is open.
        const float limit = Thread::negative_multiply_add(
            normal.r, per_radius, Thread::negative_multiply_add(normal.inverse_r, per_inverse_r, limit_at_zero));
        const float r = Thread::flip_sign(normal.r, angle_word);

        const float n_cosine = nearest_integer<Thread>(Thread::multiply_add(r, normal.cosine, x_cosine.as_float()));
        const float n_sine = nearest_integer<Thread>(Thread::multiply_add(r, normal.sine, x_sine.as_float()));
        const float d_cosine = Thread::multiply_add(r, normal.cosine, x_cosine.minus(n_cosine));
        const float d_sine = Thread::multiply_add(r, normal.sine, x_sine.minus(n_sine));
        return {{n_cosine, n_sine}, Thread::not_less(Thread::larger_magnitude(d_cosine, d_sine), limit) || radius_word < smallest};
    }
};

// The noise of several streams, which noise/combination_sum.hpp adds up:
//   E = constant + (per_radius + (p + 1) 2^-24) (r_1 + ... + r_p) + per_inverse_radius (|s_1| / radius_1 + ... + |s_p| / radius_p)
struct CombinationLevelOne {
    CombinationLimit limit;
    float inverse_share;   // per_inverse_radius in units of the limit's per_reach
    std::uint32_t smallest;

    explicit CombinationLevelOne(std::size_t terms, const DeviceGaussianBound& bound = kGaussianBound)
        : limit({bound.constant, 0.0f, bound.per_radius}, terms, 0.0), inverse_share(bound.per_inverse_radius / limit.per_reach),
          smallest(bound.smallest) {}

    // The sum with s times the normals of a pair of words added. Words near 2^32 as in GaussianLevelOne.
    template <class Functions = SpecialFunctions>
    HUSHVEC_INLINE NormalSum<Thread> plus(const NormalSum<Thread>& sum, float s, std::uint32_t radius_word,
                                          std::uint32_t angle_word) const {
        const DeviceNormalPair<Functions> normal(-1.3862943611198906188f, radius_word, angle_word);
        const float radius = radius_word < smallest ? std::numeric_limits<float>::infinity()
                                                    : Thread::multiply_add(normal.inverse_r, inverse_share, normal.r);
        return sum.plus(NormalPair<Thread>{normal.r, normal.cosine, normal.sine}, angle_word, s, Thread::magnitude(s), radius);
    }
};

// s * |Z|, or |Z| with minus_ln2_s = -ln(2).
template <class Functions>
HUSHVEC_INLINE float laplace_magnitude(float minus_ln2_s, std::uint32_t word) {
    return minus_ln2_s * Functions::log2(static_cast<float>(word) * 0x1p-32f);
}

struct LaplaceLevelOne {
    float s;
    float minus_ln2_s;
    float limit_at_zero;
    float per_radius;

    explicit LaplaceLevelOne(float scale_in_grids, const ErrorBound& bound = kLaplaceBound)
        : s(scale_in_grids), minus_ln2_s(static_cast<float>(-0.69314718055994530942 * double{scale_in_grids})),
          limit_at_zero(0.5f - bound.constant - bound.per_scale * scale_in_grids), per_radius(bound.per_radius) {}

    struct Rounding {
        float n;
        bool open;
    };

    template <class Functions = SpecialFunctions, class Elements>
    HUSHVEC_INLINE Rounding round(std::uint32_t word, Elements x) const {
        const float magnitude = laplace_magnitude<Functions>(minus_ln2_s, word);
        const float limit = Thread::negative_multiply_add(magnitude, per_radius, limit_at_zero);
        const float r = with_laplace_sign<Thread>(magnitude, word);
        const float n = nearest_integer<Thread>(r + x.as_float());
        const float d = r + x.minus(n);
        return {n, Thread::not_less(Thread::magnitude(d), limit) || word < kLaplaceWindow.smallest};
    }
};

}  // namespace hushvec::cuda
