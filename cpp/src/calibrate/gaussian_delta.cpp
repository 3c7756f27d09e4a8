// What a given sigma really buys: delta at epsilon.
#include "calibrate/arguments.hpp"
#include "calibrate/privacy_profile.hpp"
#include "hushvec/calibrate.hpp"

namespace hushvec {
namespace {

using namespace calibration;

void require_arguments(double epsilon, double sigma, double sensitivity, std::ptrdiff_t index) {
    require_not_negative("epsilon", epsilon, index);
    require_positive("sigma", sigma, index);
    require_positive("sensitivity", sensitivity, index);
}

double safe_delta(double epsilon, double sigma, double sensitivity, std::ptrdiff_t) {
    return delta_upper(epsilon, noise_ratio(sigma, sensitivity));
}

}  // namespace

double gaussian_delta(double epsilon, double sigma, double sensitivity) {
    require_arguments(epsilon, sigma, sensitivity, kScalar);
    return safe_delta(epsilon, sigma, sensitivity, kScalar);
}

void gaussian_delta(std::span<const double> epsilon, std::span<const double> sigma, std::span<const double> sensitivity,
                    std::span<double> out) {
    map_elements(out, require_arguments, safe_delta,
                 NamedArray{"epsilon", epsilon}, NamedArray{"sigma", sigma}, NamedArray{"sensitivity", sensitivity});
}

}  // namespace hushvec
