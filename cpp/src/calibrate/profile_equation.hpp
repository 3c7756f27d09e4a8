// The equation both solvers solve, ln(computed/asked) = 0, and the step they take.
#pragma once

#include <cmath>

#include "calibrate/privacy_profile.hpp"
#include "calibrate/scaled.hpp"

namespace hushvec::calibration {

// The delta asked for, in the two forms in which a point of the profile may come.
struct Target {
    explicit Target(double asked) : delta(split(asked)), gamma(1.0 - asked) {}

    // ln(delta(x, s)/asked), or the same of 1 - delta. Scale factors are split off before the logarithm, so that a
    // tiny delta with a huge s does not leave the difference of two large logarithms.
    double residual(const ProfileBracket& bracket, double x, double s) const {
        if (bracket.complement) return std::log(bracket.value / (gamma * kSqrt2Pi)) - 0.5 * x * x;
        const Scaled ratio = split(s);
        return std::log(bracket.value / (ratio.fraction * delta.fraction * kSqrt2Pi)) -
               (static_cast<double>(delta.exponent + ratio.exponent) * kLn2 + 0.5 * x * x);
    }

    Scaled delta;
    double gamma;   // exact for delta >= 1/2
};

// Root of value + slope (d + second/2 d^2 + third/6 d^3) to fourth order (Householder's third-order iteration),
// second and third relative to slope. Newton's step where the rational form leaves its range.
inline double householder_step(double value, double slope, double second, double third) {
    constexpr double kSmallestDenominator = 0.2;
    const double newton = -value / slope;
    const double a2 = second / 2.0;
    const double a3 = third / 6.0;
    const double denominator = 1.0 + newton * (2.0 * a2 + a3 * newton);
    return denominator > kSmallestDenominator ? newton * (1.0 + a2 * newton) / denominator : newton;
}

// The step is fourth order: one of this size, in the natural unit of x, leaves less than 1e-17 (largest constant
// seen: 0.03).
inline constexpr double kLastStep = 0x1p-13;
inline constexpr double kLongestStep = 1.0;
inline constexpr int kMaxSteps = 40;   // two are usual; the answer is checked afterwards whatever happens here

// Shift past the solved root, in units that the residual sees: both the solver's delta and the check may be off by
// kDeltaError.
inline constexpr double kResidualMargin = 2.0 * kDeltaError;

// Roundings on the way from the root to the returned double, and the last place of the arguments as decimals: 8 u.
inline constexpr double kRoundingMargin = 8.0 * kUnit;

}  // namespace hushvec::calibration
