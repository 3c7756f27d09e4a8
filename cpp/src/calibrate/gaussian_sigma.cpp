// The smallest sigma for (epsilon, delta).
//
// Solved in w = ln(s sqrt(2 epsilon)), where x = sqrt(2 epsilon) sinh w and y = sqrt(2 epsilon) cosh w
// (privacy_profile.hpp) and every derivative of ln delta is a rational function of x, y and the value itself. x is
// what is carried from step to step: known to its last place, where the difference of epsilon s and 1/(2s) is not.
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
constexpr double kLargest = std::numeric_limits<double>::max();

void require_arguments(double epsilon, double delta, double sensitivity, std::ptrdiff_t index) {
    require_positive("epsilon", epsilon, index);
    require_delta(delta, index);
    require_positive("sensitivity", sensitivity, index);
}

// sqrt(x^2 + 2 epsilon), without overflow for the largest epsilon.
double upper_end(double x, double epsilon) { return 2.0 * std::sqrt(0.5 * epsilon + 0.25 * (x * x)); }

struct Point {
    Point(double x_value, double epsilon) : x(x_value), y(upper_end(x_value, epsilon)) {
        s = x > 0.0 ? 0.5 * ((x + y) / epsilon) : 1.0 / (y - x);
    }
    double x, y, s;
};

// Close enough for two steps; a third was seen in 14 of 49,302 points over the whole range.
double guess_x(double epsilon, double delta) {
    constexpr double kSmallEpsilon = 2.5;   // where the two guesses are equally good
    const auto upper = [epsilon](double x) { return upper_end(x, epsilon); };
    if (delta > 0.5) return guess_from_complement(1.0 - delta, upper);
    if (epsilon > kSmallEpsilon) return guess_from_tail(delta, upper);

    // delta/epsilon = e^(epsilon/2) (phi(m)/m - Q(m)), m = epsilon s, to first order in 1/s
    const double midpoint = guess_midpoint(std::log(delta) - std::log(epsilon) - 0.5 * epsilon);
    return midpoint - 0.5 * (epsilon / midpoint);
}

// s just above the root of delta(epsilon, s) = delta, and how far above.
struct Solution {
    double s;
    double relative_margin;
};

Solution solve(double epsilon, double delta) {
    const Target target(delta);
    Point point(guess_x(epsilon, delta), epsilon);
    double margin = kRoundingMargin;
    for (int step = 0; step < kMaxSteps; ++step) {
        if (!(point.s <= kLargest)) return {kInfinity, margin};
        const double x = point.x;
        const double y = point.y;
        const ProfileBracket bracket = profile_bracket(x, y, point.s);

        // d ln delta/dw and d ln(1 - delta)/dw; then the logarithmic derivative of the slope, and its derivative
        const double slope = bracket.complement ? 1.0 / (point.s * bracket.value) : -1.0 / bracket.value;
        const double q = -1.0 - x * y - slope;
        const double q_slope = -(x * x + y * y) - slope * q;
        double dw = householder_step(target.residual(bracket, x, point.s), slope, q, q * q + q_slope);
        const double natural = std::abs(dw) * (1.0 + y);
        if (natural > kLongestStep) dw /= natural;

        // (x, y) turned by the hyperbolic angle dw
        const double dw2 = dw * dw;
        const double sinh_dw = dw * (1.0 + dw2 / 6.0 * (1.0 + dw2 / 20.0 * (1.0 + dw2 / 42.0)));
        const double cosh_dw_minus_1 = dw2 / 2.0 * (1.0 + dw2 / 12.0 * (1.0 + dw2 / 30.0));
        point = Point(x + (x * cosh_dw_minus_1 + y * sinh_dw), epsilon);
        margin = kResidualMargin / std::abs(slope) + kRoundingMargin;
        if (natural < kLastStep) break;
    }
    return {point.s * (1.0 + margin), margin};
}

double safe_sigma(double epsilon, double delta, double sensitivity, std::ptrdiff_t index) {
    const Solution solution = solve(epsilon, delta);
    double sigma = solution.s * sensitivity;
    double raise = solution.relative_margin;
    while (sigma <= kLargest && !(sigma > 0.0 && delta_upper(epsilon, noise_ratio(sigma, sensitivity)) <= delta)) {
        sigma = std::max(sigma * (1.0 + raise), std::nextafter(sigma, kInfinity));
        raise *= 2.0;
    }
    return require_representable("sigma", sigma, index);
}

}  // namespace

double gaussian_sigma(double epsilon, double delta, double sensitivity) {
    require_arguments(epsilon, delta, sensitivity, kScalar);
    return safe_sigma(epsilon, delta, sensitivity, kScalar);
}

void gaussian_sigma(std::span<const double> epsilon, std::span<const double> delta, std::span<const double> sensitivity,
                    std::span<double> out) {
    map_elements(out, require_arguments, safe_sigma,
                 NamedArray{"epsilon", epsilon}, NamedArray{"delta", delta}, NamedArray{"sensitivity", sensitivity});
}

}  // namespace hushvec
