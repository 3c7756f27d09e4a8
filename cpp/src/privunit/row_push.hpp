// Level 1 of PrivUnitG's rounding: a row's push along its direction in float32, and what bounds the error. On the CPU and on a device.
//
// docs/proofs/privunit.md derives the bounds; row_round.hpp has the formula that they are for.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "lanes/inline.hpp"
#include "noise/error_bounds.hpp"

namespace hushvec {

// Sums over a row of integers X and normals z, in float64. squares is exact; product has exact terms, added in any order.
struct DirectionProducts {
    double squares;   // of X_j^2
    double product;   // of X_j z_j
};

namespace level_one {

inline constexpr double kLargestPush = 0x1p21;        // |k X|, so that float32 can round to integers
inline constexpr double kFloatUnit = 0x1p-24;
inline constexpr double kRoom = 1.0 + 0x1p-16;        // covers the roundings of a bound itself, and of a sum of squared radii
inline constexpr double kMoreConstant = 1.5e-7;       // the rounding of E, which has two terms more than an ordinary fill's
inline constexpr double kSmallestError = 0x1p-60;     // not 0: a product with the smallest float32 would be slow

HUSHVEC_DEVICE inline float rounded_up(double value) { return std::nextafter(static_cast<float>(value), std::numeric_limits<float>::infinity()); }

// How far the computed push of a row may be off; infinite where level 1 has no bound.
struct Push {
    float value;
    double error;
};

// k = s (alpha - D / R) / R. Errors of D: those of z by Cauchy's inequality, with the squared radii of all groups that the row
// touches, a little more than its own; float64 roundings are far below kRoom. radius_squares is infinite where a z has no bound.
HUSHVEC_DEVICE inline Push push_of(ErrorBound bound, double s, std::size_t columns, DirectionProducts sums, double radius_squares, double alpha,
                                   double alpha_half_width) {
    if (sums.squares == 0) return {0, std::isfinite(radius_squares) ? 0.0 : radius_squares};
    const double product_error = double{bound.per_scale} * std::sqrt(static_cast<double>(columns)) +
                                 double{bound.per_radius} * std::sqrt(radius_squares);
    const double norm = std::sqrt(sums.squares);
    const double scale = s / norm;
    const double value = scale * (alpha - sums.product / norm);
    const double error = scale * (alpha_half_width + product_error) + 2 * kFloatUnit * std::abs(value);
    const bool in_range = std::abs(value) * norm * kRoom < kLargestPush;
    return {static_cast<float>(value), in_range ? error * kRoom : std::numeric_limits<double>::infinity()};
}

// The terms of 1/2 - E that all rows of a call share. `factor` scales E.
struct Limits {
    float at_zero;         // 1/2 - constant - per_scale s
    float per_magnitude;   // per_radius s, with room for the error of the computed |z|
};

inline Limits limits_of(ErrorBound bound, double s, double factor) {
    const double constant = double{bound.constant} + double{bound.per_scale} * s + kMoreConstant;
    return {static_cast<float>(0.5 - factor * constant), rounded_up(factor * double{bound.per_radius} * s * kRoom)};
}

}  // namespace level_one
}  // namespace hushvec
