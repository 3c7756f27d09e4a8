// From a row's sum of squares to its q (docs/format.md section 4): IEEE operations alone, so that every processor agrees.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "lanes/inline.hpp"

namespace hushvec {

inline constexpr double kClipMargin = 1.0 - 0x1p-20;   // covers the roundings after the norm: docs/proofs/clip_norm.md

// Of a value >= 0. The float below is the one with the next smaller bits: half of all rows take it, and no branch could foresee which.
HUSHVEC_DEVICE inline float round_toward_zero(double value) {
    const float nearest = static_cast<float>(value);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(nearest) - std::uint32_t{static_cast<double>(nearest) > value});
}

// value * 2^exponent; only a subnormal result is rounded at all.
HUSHVEC_DEVICE inline double times_power_of_two_toward_zero(double value, int exponent) {
    const double nearest = std::ldexp(value, exponent);
    return std::ldexp(nearest, -exponent) > value ? std::nextafter(nearest, 0.0) : nearest;
}

// NaN for a row with a non-finite element: squares of float32 cannot overflow a float64 sum, so the sum itself tells.
HUSHVEC_DEVICE inline double float32_scale(double sum_of_squares, double clip_norm) {
    if (!std::isfinite(sum_of_squares)) return std::numeric_limits<double>::quiet_NaN();
    const double norm = std::sqrt(sum_of_squares);
    const double target = clip_norm * kClipMargin;
    return norm <= target ? 1.0 : static_cast<double>(round_toward_zero(target / norm));
}

// For a finite sum.
HUSHVEC_DEVICE inline double float64_scale(double sum_of_squares, double clip_norm) {
    const double norm = std::sqrt(sum_of_squares);
    const double target = clip_norm * kClipMargin;
    return norm <= target ? 1.0 : target / norm;
}

// Where the sum overflows, the row is multiplied by 2^-k first.
HUSHVEC_DEVICE inline int reduction_exponent(double largest_magnitude) {
    int exponent = 0;
    std::frexp(largest_magnitude, &exponent);
    return exponent + 1;
}
HUSHVEC_DEVICE inline double reduced_float64_scale(double sum_of_squares, int exponent, double clip_norm) {
    return times_power_of_two_toward_zero(clip_norm * kClipMargin / std::sqrt(sum_of_squares), -exponent);
}

// q = scale / grid; the grid is a power of two. The last argument picks the type of X.
HUSHVEC_DEVICE inline float in_grid_units(double scale, double grid, float) { return round_toward_zero(scale / grid); }
HUSHVEC_DEVICE inline double in_grid_units(double scale, double grid, double) {
    return times_power_of_two_toward_zero(scale, -std::ilogb(grid));
}

}  // namespace hushvec
