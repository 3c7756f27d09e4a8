#include "calibrate/privacy_profile.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "calibrate/scaled.hpp"

namespace hushvec::calibration {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();
constexpr double kSmallest = std::numeric_limits<double>::denorm_min();

// Beyond these x the answer is a constant: phi(100) is below 2^-7000, and 1 - delta <= 2 Q(37) is below 2^-900.
constexpr double kDeltaVanishesAbove = 100.0;
constexpr double kDeltaIsOneBelow = -37.0;

// x = epsilon s - 1/(2s) as an unevaluated sum, and y. The rounding errors of every product and quotient are kept
// (fma), because epsilon s and 1/(2s) may agree in all their leading digits.
struct Arguments {
    double x, x_low, y;
};

Arguments profile_arguments(double epsilon, NoiseRatio s) {
    const double product = epsilon * s.high;
    const double half_inverse = 0.5 / s.high;
    const double x = product - half_inverse;
    const double y = product + half_inverse;
    if (!(x <= kDeltaVanishesAbove && x >= kDeltaIsOneBelow)) return {x, 0.0, y};

    const double product_low = std::fma(epsilon, s.high, -product) + epsilon * s.low;
    const double remainder = std::fma(-half_inverse, s.high, 0.5) - half_inverse * s.low;
    const double half_inverse_low = remainder / s.high;

    // Knuth's two-sum of product and -half_inverse, then the low parts.
    const double minus_part = x - product;
    const double lost = (product - (x - minus_part)) - (half_inverse + minus_part);
    const double low = lost + (product_low - half_inverse_low);
    const double x_high = x + low;
    return {x_high, low - (x_high - x), y};
}

// The smallest double >= 1 - gamma, for gamma in [0, 0.7]: 1 - difference is exact there, so `lost` has the sign of
// the error.
double one_minus_rounded_up(double gamma) {
    const double difference = 1.0 - gamma;
    const double lost = (1.0 - difference) - gamma;
    return lost > 0.0 ? std::nextafter(difference, 2.0) : difference;
}

}  // namespace

NoiseRatio noise_ratio(double sigma, double sensitivity) {
    const Scaled numerator = split(sigma);
    const Scaled denominator = split(sensitivity);
    const int exponent = numerator.exponent - denominator.exponent;
    if (exponent > 1023) return {kLargest, 0.0};
    if (exponent < -1000) return {0.0, 0.0};

    const double high = numerator.fraction / denominator.fraction;
    const double low = std::fma(-high, denominator.fraction, numerator.fraction) / denominator.fraction;
    const double unit = power_of_two(exponent);
    return {high * unit, low * unit};
}

double delta_upper(double epsilon, NoiseRatio s) {
    if (s.high == 0.0) return 1.0;
    const Arguments a = profile_arguments(epsilon, s);
    if (a.x > kDeltaVanishesAbove) return kSmallest;
    if (a.x < kDeltaIsOneBelow) return 1.0;

    // phi(x): the square in two parts, so that its error is not multiplied by its size
    const double square = a.x * a.x;
    const double square_low = std::fma(a.x, a.x, -square) + 2.0 * a.x * a.x_low;
    const Scaled bell = scaled_exp(-0.5 * square, -0.5 * square_low);
    const double density = bell.fraction * kInverseSqrt2Pi;

    const ProfileBracket bracket = profile_bracket(a.x, a.y, s.high);
    if (bracket.complement) {
        const double gamma = density * bracket.value * power_of_two(bell.exponent);
        return one_minus_rounded_up(gamma * (1.0 - kDeltaError));
    }
    const Scaled ratio = split(s.high);
    const double delta = density * bracket.value / ratio.fraction * (1.0 + kDeltaError);
    return std::min(1.0, round_up({delta, bell.exponent - ratio.exponent}));
}

}  // namespace hushvec::calibration
