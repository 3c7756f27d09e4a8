#include "privunit/direction.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "clip/row_scale.hpp"
#include "clip/row_scale_arithmetic.hpp"
#include "dispatch/dispatch.hpp"
#include "privunit/direction_scale.hpp"

namespace hushvec {

Directions::Directions(const MatrixView& x) : x_(x), wide_(x.dtype == DType::float64 ? x.columns : 0) {}

double Directions::norm_of_wide(std::size_t row) {
    const double sum = stage_row(x_, row, wide_.data());
    if (std::isfinite(sum)) return std::sqrt(sum);
    double largest = 0;
    for (const double element : wide_) {
        if (!std::isfinite(element)) return std::numeric_limits<double>::quiet_NaN();
        largest = std::max(largest, std::abs(element));
    }
    const double factor = std::ldexp(1.0, -reduction_exponent(largest));   // exact
    for (double& element : wide_) element *= factor;
    return std::sqrt(active_kernels().sum_of_squares_f64(wide_.data(), wide_.size()));
}

bool Directions::find(std::size_t row, float* direction) {
    const bool wide = x_.dtype == DType::float64;
    const double norm = wide ? norm_of_wide(row) : std::sqrt(stage_row(x_, row, direction));
    if (!std::isfinite(norm)) return false;
    const double scale = direction_scale(norm);
    if (scale == 0) {
        std::fill_n(direction, x_.columns, 0.0f);
    } else if (wide) {
        std::transform(wide_.begin(), wide_.end(), direction, [scale](double element) { return direction_of(element, scale); });
    } else {
        active_kernels().round_row(direction, x_.columns, static_cast<float>(scale), direction);
    }
    return true;
}

}  // namespace hushvec
