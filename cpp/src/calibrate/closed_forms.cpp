// Parameters that need no equation solved: the classical Gaussian sigma, the Laplace scale, and rounding up to float.
#include <cmath>
#include <limits>

#include "calibrate/arguments.hpp"
#include "calibrate/privacy_profile.hpp"
#include "hushvec/calibrate.hpp"

namespace hushvec {
namespace {

using namespace calibration;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Two logarithms of a C library trusted to 8 units, a root that halves the error, and five roundings: 32 u is generous.
constexpr double kClassicalMargin = 32.0 * kUnit;

void require_classical(double epsilon, double delta, double sensitivity, bool allow_unproven, std::ptrdiff_t index) {
    require_positive("epsilon", epsilon, index);
    require_delta(delta, index);
    require_positive("sensitivity", sensitivity, index);
    if (epsilon >= 1.0 && !allow_unproven) throw_rule("epsilon", index, "must be < 1 for the classical sigma", epsilon);
}

double classical_sigma(double epsilon, double delta, double sensitivity, std::ptrdiff_t index) {
    constexpr double kLog1_25 = 0.22314355131420976;
    const double unit_sigma = std::sqrt(2.0 * (kLog1_25 - std::log(delta))) * (1.0 + kClassicalMargin);
    const double sigma = std::nextafter(std::nextafter(unit_sigma / epsilon, kInfinity) * sensitivity, kInfinity);
    return require_representable("sigma", sigma, index);
}

void require_laplace(double epsilon, double sensitivity, std::ptrdiff_t index) {
    require_positive("epsilon", epsilon, index);
    require_positive("sensitivity", sensitivity, index);
}

// The sign of scale * epsilon - sensitivity tells which way the quotient was rounded; where it could underflow, the
// quotient is raised unseen.
double safe_laplace_scale(double epsilon, double sensitivity, std::ptrdiff_t index) {
    constexpr double kRemainderUnderflow = 0x1p-960;
    const double scale = require_representable("scale", sensitivity / epsilon, index);
    const bool may_be_too_small = sensitivity < kRemainderUnderflow || std::fma(scale, epsilon, -sensitivity) < 0.0;
    return may_be_too_small ? require_representable("scale", std::nextafter(scale, kInfinity), index) : scale;
}

}  // namespace

double gaussian_sigma_classical(double epsilon, double delta, double sensitivity, bool allow_unproven) {
    require_classical(epsilon, delta, sensitivity, allow_unproven, kScalar);
    return classical_sigma(epsilon, delta, sensitivity, kScalar);
}

void gaussian_sigma_classical(std::span<const double> epsilon, std::span<const double> delta,
                              std::span<const double> sensitivity, std::span<double> out, bool allow_unproven) {
    const auto check = [allow_unproven](double e, double d, double d2, std::ptrdiff_t i) {
        require_classical(e, d, d2, allow_unproven, i);
    };
    map_elements(out, check, classical_sigma,
                 NamedArray{"epsilon", epsilon}, NamedArray{"delta", delta}, NamedArray{"sensitivity", sensitivity});
}

double laplace_scale(double epsilon, double sensitivity) {
    require_laplace(epsilon, sensitivity, kScalar);
    return safe_laplace_scale(epsilon, sensitivity, kScalar);
}

void laplace_scale(std::span<const double> epsilon, std::span<const double> sensitivity, std::span<double> out) {
    map_elements(out, require_laplace, safe_laplace_scale,
                 NamedArray{"epsilon", epsilon}, NamedArray{"sensitivity", sensitivity});
}

float round_up_to_float(double value) {
    constexpr float kLargestFloat = std::numeric_limits<float>::max();
    if (!(std::abs(value) <= static_cast<double>(kLargestFloat))) {
        throw_rule("value", kScalar, "must be at most 3.4028235e+38 in size", value);
    }
    const float nearest = static_cast<float>(value);
    return static_cast<double>(nearest) < value ? std::nextafter(nearest, kLargestFloat) : nearest;
}

}  // namespace hushvec
