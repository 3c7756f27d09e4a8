#include "clip/row_scale.hpp"

#include <atomic>
#include <cmath>
#include <limits>
#include <span>
#include <string>

#include "array/staging.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/clip.hpp"
#include "parallel/threads.hpp"

namespace hushvec {
namespace {

constexpr double kMargin = 1.0 - 0x1p-20;   // covers the roundings after the norm: docs/proofs/clip_norm.md

float round_toward_zero(double value) {
    const float nearest = static_cast<float>(value);
    return static_cast<double>(nearest) > value ? std::nextafter(nearest, 0.0f) : nearest;
}

// value * 2^exponent; only a subnormal result is rounded at all.
double times_power_of_two_toward_zero(double value, int exponent) {
    const double nearest = std::ldexp(value, exponent);
    return std::ldexp(nearest, -exponent) > value ? std::nextafter(nearest, 0.0) : nearest;
}

double sum_of_squares(std::span<const float> row) { return active_kernels().sum_of_squares(row.data(), row.size()); }
double sum_of_squares(std::span<const double> row) { return active_kernels().sum_of_squares_f64(row.data(), row.size()); }

// NaN for a row with a non-finite element. Squares of float32 cannot overflow a float64 sum, so the sum itself tells.
double scale_of(std::span<const float> row, double clip_norm) {
    const double sum = sum_of_squares(row);
    if (!std::isfinite(sum)) return std::numeric_limits<double>::quiet_NaN();
    const double norm = std::sqrt(sum);
    const double target = clip_norm * kMargin;
    return norm <= target ? 1.0 : static_cast<double>(round_toward_zero(target / norm));
}

double scale_of(std::span<const double> row, double clip_norm) {
    const double target = clip_norm * kMargin;
    double sum = sum_of_squares(row);
    if (std::isfinite(sum)) {
        const double norm = std::sqrt(sum);
        return norm <= target ? 1.0 : target / norm;
    }
    double largest = 0;
    for (const double element : row) {
        if (!std::isfinite(element)) return std::numeric_limits<double>::quiet_NaN();
        largest = std::max(largest, std::fabs(element));
    }
    int exponent = 0;
    std::frexp(largest, &exponent);
    ++exponent;
    std::vector<double> reduced(row.begin(), row.end());
    for (double& element : reduced) element = std::ldexp(element, -exponent);
    return times_power_of_two_toward_zero(target / std::sqrt(sum_of_squares(std::span<const double>(reduced))), -exponent);
}

float in_grid_units(double scale, double grid, float) { return round_toward_zero(scale / grid); }
double in_grid_units(double scale, double grid, double) { return times_power_of_two_toward_zero(scale, -std::ilogb(grid)); }

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

template <class Scale>
constexpr bool kIsOwnDType(DType dtype) {
    return dtype == (sizeof(Scale) == sizeof(double) ? DType::float64 : DType::float32);
}

}  // namespace

NonFiniteRow::NonFiniteRow(std::size_t row, double value)
    : std::invalid_argument("x must be finite, got " + std::string(std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf") + " in row " +
                            std::to_string(row)) {}

template <class Scale>
std::vector<Scale> row_scales(const MatrixView& x, double clip_norm, double grid) {
    std::vector<Scale> scales(x.rows);
    std::atomic<std::size_t> first_bad{x.rows};
    const bool direct = kIsOwnDType<Scale>(x.dtype) && x.rows_are_contiguous();
    parallel_for(x.rows, x.columns, [&](std::size_t begin, std::size_t end) {
        std::vector<Scale> buffer(direct ? 0 : x.columns);
        for (std::size_t row = begin; row < end; ++row) {
            const Scale* elements = buffer.data();
            if (direct) {
                elements = reinterpret_cast<const Scale*>(x.at(row, 0));
            } else {
                gather(x, row * x.columns, x.columns, buffer.data());
            }
            const double scale = scale_of(std::span<const Scale>(elements, x.columns), clip_norm);
            if (std::isnan(scale)) {
                std::size_t known = first_bad.load();
                while (row < known && !first_bad.compare_exchange_weak(known, row)) {}
                return;
            }
            scales[row] = in_grid_units(scale, grid, Scale{});
        }
    });
    if (first_bad < x.rows) throw NonFiniteRow(first_bad, first_non_finite(x, first_bad));
    return scales;
}

template std::vector<float> row_scales<float>(const MatrixView&, double, double);
template std::vector<double> row_scales<double>(const MatrixView&, double, double);

}  // namespace hushvec
