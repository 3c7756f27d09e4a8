// The smallest epsilon that a given sigma has at delta.
//
// Solved in x = epsilon s - 1/(2s) at fixed s = sigma/sensitivity: y = x + 1/s, epsilon = (x + 1/(2s))/s, and
// d delta/dx = -phi(x) M(y)/s (privacy_profile.hpp).
#include <algorithm>
#include <cmath>
#include <limits>

#include "calibrate/arguments.hpp"
#include "calibrate/privacy_profile.hpp"
#include "calibrate/profile_equation.hpp"
#include "calibrate/tail_guess.hpp"
#include "hushvec/calibrate.hpp"

namespace hushvec {
namespace {

using namespace calibration;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void require_arguments(double delta, double sigma, double sensitivity, std::ptrdiff_t index) {
    require_delta(delta, index);
    require_positive("sigma", sigma, index);
    require_positive("sensitivity", sensitivity, index);
}

// 1/M(y) - y, given M(y): by two terms of its asymptotic series where the subtraction would leave nothing.
double hazard_excess(double y, double mills_y) {
    constexpr double kAsymptoticAbove = 30.0;
    if (y > kAsymptoticAbove) return (1.0 - 2.0 / (y * y)) / y;
    return (1.0 - y * mills_y) / mills_y;
}

// A start that is good for a wide pair and fair for a narrow one: two steps are usual, three the most seen.
double guess_x(double delta, double gap, double lowest) {
    const auto upper = [gap](double x) { return x + gap; };
    const double x = delta > 0.5 ? guess_from_complement(1.0 - delta, upper) : guess_from_tail(delta, upper);
    return std::max(x, lowest);
}

struct Solution {
    double epsilon;
    double margin;   // absolute
};

// x and 1/(2s) are rounded to doubles, 1/(2s) from a rounded s: 2 u of each.
constexpr double kArgumentMargin = 2.0 * kUnit;

Solution solve(double delta, double s) {
    const Target target(delta);
    const double gap = 1.0 / s;
    const double lowest = -0.5 * gap;   // epsilon = 0
    double x = guess_x(delta, gap, lowest);
    double x_margin = 0.0;
    for (int step = 0; step < kMaxSteps; ++step) {
        const double y = x + gap;
        const ProfileBracket bracket = profile_bracket(x, y, s);

        // d ln delta/dx and d ln(1 - delta)/dx; then the logarithmic derivative of the slope, and its derivative
        const double slope = bracket.complement ? bracket.upper / (s * bracket.value) : -bracket.upper / bracket.value;
        const double excess = hazard_excess(y, bracket.upper);
        const double q = -x - excess - slope;
        const double q_slope = -excess / bracket.upper - slope * q;
        const double dx = householder_step(target.residual(bracket, x, s), slope, q, q * q + q_slope);
        x = std::max(x + std::clamp(dx, -kLongestStep, kLongestStep), lowest);
        x_margin = kResidualMargin / std::abs(slope) + kArgumentMargin * (std::abs(x) - lowest);
        if (std::abs(dx) < kLastStep) break;
    }
    const double epsilon = (x - lowest) / s;
    const double margin = x_margin / s + kRoundingMargin * epsilon;
    return {epsilon + margin, margin};
}

double safe_epsilon(double delta, double sigma, double sensitivity, std::ptrdiff_t) {
    constexpr double kOverflowBelow = 0x1p-514;   // epsilon > 1/(4 s^2)
    const NoiseRatio s = noise_ratio(sigma, sensitivity);
    if (delta_upper(0.0, s) <= delta) return 0.0;
    if (s.high < kOverflowBelow) return kInfinity;
    const Solution solution = solve(delta, s.high);
    double epsilon = solution.epsilon;
    double raise = solution.margin;
    while (std::isfinite(epsilon) && delta_upper(epsilon, s) > delta) {
        epsilon = std::max(epsilon + raise, std::nextafter(epsilon, kInfinity));
        raise *= 2.0;
    }
    return epsilon;
}

}  // namespace

double gaussian_epsilon(double delta, double sigma, double sensitivity) {
    require_arguments(delta, sigma, sensitivity, kScalar);
    return safe_epsilon(delta, sigma, sensitivity, kScalar);
}

void gaussian_epsilon(std::span<const double> delta, std::span<const double> sigma, std::span<const double> sensitivity,
                      std::span<double> out) {
    map_elements(out, require_arguments, safe_epsilon,
                 NamedArray{"delta", delta}, NamedArray{"sigma", sigma}, NamedArray{"sensitivity", sensitivity});
}

}  // namespace hushvec
