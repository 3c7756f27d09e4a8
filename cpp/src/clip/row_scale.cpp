#include "clip/row_scale.hpp"

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <type_traits>

#include "array/staging.hpp"
#include "clip/row_scale_arithmetic.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/clip.hpp"

namespace hushvec {
namespace {

double sum_of_squares(std::span<const float> row) { return active_kernels().sum_of_squares(row.data(), row.size()); }
double sum_of_squares(std::span<const double> row) { return active_kernels().sum_of_squares_f64(row.data(), row.size()); }

double scale_of(std::span<const float> row, double clip_norm) { return float32_scale(sum_of_squares(row), clip_norm); }

double scale_of(std::span<const double> row, double clip_norm) {
    const double sum = sum_of_squares(row);
    if (std::isfinite(sum)) return float64_scale(sum, clip_norm);
    double largest = 0;
    for (const double element : row) {
        if (!std::isfinite(element)) return std::numeric_limits<double>::quiet_NaN();
        largest = std::max(largest, std::fabs(element));
    }
    const int exponent = reduction_exponent(largest);
    std::vector<double> reduced(row.begin(), row.end());
    for (double& element : reduced) element = std::ldexp(element, -exponent);
    return reduced_float64_scale(sum_of_squares(std::span<const double>(reduced)), exponent, clip_norm);
}

double first_non_finite(const MatrixView& x, std::size_t row) {
    std::vector<double> wide(x.columns);
    if (x.dtype == DType::float64) {
        gather(x, row * x.columns, x.columns, wide.data());
    } else {
        std::vector<float> narrow(x.columns);
        gather(x, row * x.columns, x.columns, narrow.data());
        wide.assign(narrow.begin(), narrow.end());
    }
    for (const double element : wide) {
        if (!std::isfinite(element)) return element;
    }
    return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

NonFiniteRow::NonFiniteRow(std::size_t row, double value)
    : std::invalid_argument("x must be finite, got " + std::string(std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf") + " in row " +
                            std::to_string(row)) {}

void throw_non_finite(const MatrixView& x, std::size_t row) { throw NonFiniteRow(row, first_non_finite(x, row)); }

template <class Scale>
RowScales<Scale>::RowScales(const MatrixView& x, double clip_norm, double grid)
    : x_(x), clip_norm_(clip_norm), grid_(grid), direct_(x.dtype == dtype_of<Scale> && x.rows_are_contiguous()),
      scales_(x.rows), first_bad_(x.rows) {}

template <class Scale>
double RowScales<Scale>::scale_of_row(std::size_t row, std::vector<Scale>& buffer) const {
    const Scale* elements = buffer.data();
    if (direct_) {
        elements = reinterpret_cast<const Scale*>(x_.at(row, 0));
    } else {
        gather(x_, row * x_.columns, x_.columns, buffer.data());
    }
    return scale_of(std::span<const Scale>(elements, x_.columns), clip_norm_);
}

// A row of one float32 has the norm |x| exactly: the square is exact in float64, and its root is x again. Scores of one query are
// 100,000 such rows; 3.0 ms without this, 0.3 ms with it (Intel Sapphire Rapids class).
template <class Scale>
bool RowScales<Scale>::is_one_short_element(std::size_t row) const {
    if constexpr (std::is_same_v<Scale, float>) {
        return direct_ && x_.columns == 1 && std::fabs(double{*reinterpret_cast<const float*>(x_.at(row, 0))}) <= clip_norm_ * kClipMargin;
    }
    return false;
}

template <class Scale>
bool RowScales<Scale>::find(std::size_t begin, std::size_t end) {
    std::vector<Scale> buffer(direct_ ? 0 : x_.columns);
    const Scale unchanged = in_grid_units(1.0, grid_, Scale{});
    for (std::size_t row = begin; row < end; ++row) {
        if (is_one_short_element(row)) {
            scales_[row] = unchanged;
            continue;
        }
        const double scale = scale_of_row(row, buffer);
        if (std::isnan(scale)) {
            std::size_t known = first_bad_.load();
            while (row < known && !first_bad_.compare_exchange_weak(known, row)) {}
            return false;
        }
        scales_[row] = in_grid_units(scale, grid_, Scale{});
    }
    return true;
}

template <class Scale>
void RowScales<Scale>::require_finite() const {
    const std::size_t row = first_bad_;
    if (row < x_.rows) throw_non_finite(x_, row);
}

template class RowScales<float>;
template class RowScales<double>;

}  // namespace hushvec
