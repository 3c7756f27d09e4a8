#include "clip/row_scale.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "array/staging.hpp"
#include "clip/part_rows.hpp"
#include "clip/row_kernels.hpp"
#include "clip/row_scale_arithmetic.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/clip.hpp"
#include "parallel/threads.hpp"

namespace hushvec {
namespace {

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

// ---- is it finite? ----

constexpr std::size_t kFiniteRun = 4096;   // elements of one answer, and of the stage where rows must be copied

bool all_finite(const float* elements, std::size_t count) { return active_kernels().all_finite(elements, count); }
bool all_finite(const double* elements, std::size_t count) { return active_kernels().all_finite_f64(elements, count); }

double sum_of_squares(const float* row, std::size_t count) { return active_kernels().sum_of_squares(row, count); }
double sum_of_squares(const double* row, std::size_t count) { return active_kernels().sum_of_squares_f64(row, count); }

double copy_and_square(const float* row, std::size_t count, float* copy) { return active_kernels().copy_and_square(row, count, copy); }
double copy_and_square(const double* row, std::size_t count, double* copy) { return active_kernels().copy_and_square_f64(row, count, copy); }

void half_of_squares(const float* row, std::size_t count, std::size_t half, double* sums) { active_kernels().half_of_squares(row, count, half, sums); }
void half_of_squares(const double* row, std::size_t count, std::size_t half, double* sums) { active_kernels().half_of_squares_f64(row, count, half, sums); }

template <class Element>
double sum_of_halves(const Element* row, std::size_t count) {
    alignas(64) double sum[kNormAccumulators];
    constexpr std::size_t width = kNormAccumulators / 2;
    parallel_for(2, count / 2 / kElementsOfASample, [&](std::size_t half, std::size_t end) {
        for (; half < end; ++half) half_of_squares(row, count, half, sum + half * width);
    });
    for (std::size_t j = count / kNormAccumulators * kNormAccumulators; j < count; ++j) {
        sum[j % kNormAccumulators] += static_cast<double>(row[j]) * static_cast<double>(row[j]);
    }
    return joined_accumulators(sum);
}

template <class Element>
class FiniteRows {
public:
    explicit FiniteRows(const MatrixView& x) : x_(x), direct_(x.dtype == dtype_of<Element> && x.rows_are_contiguous()), stage_(direct_ ? 0 : kFiniteRun) {}

    bool operator()(std::size_t row) {
        for (std::size_t column = 0; column < x_.columns; column += kFiniteRun) {
            const std::size_t count = std::min(kFiniteRun, x_.columns - column);
            if (!direct_) gather(x_, row * x_.columns + column, count, stage_.data());
            if (!all_finite(direct_ ? reinterpret_cast<const Element*>(x_.at(row, column)) : stage_.data(), count)) return false;
        }
        return true;
    }

private:
    const MatrixView& x_;
    const bool direct_;
    std::vector<Element> stage_;
};

template <class Element>
void require_finite_elements(const MatrixView& x) {
    FirstBadRow bad(x.rows);
    parallel_for(x.rows, x.columns, [&](std::size_t begin, std::size_t end) {
        FiniteRows<Element> is_finite(x);
        for (std::size_t row = begin; row < end; ++row) {
            if (!is_finite(row)) return bad.note(row);
        }
    });
    bad.require_none(x);
}

}  // namespace

NonFiniteRow::NonFiniteRow(std::size_t row, double value)
    : std::invalid_argument("x must be finite, got " + std::string(std::isnan(value) ? "nan" : (value < 0 ? "-inf" : "inf")) + " in row " +
                            std::to_string(row)) {}

void FirstBadRow::require_none(const MatrixView& x) const {
    const std::size_t row = first_;
    if (row < rows_) throw NonFiniteRow(row, first_non_finite(x, row));
}

void require_finite(const MatrixView& x) {
    x.dtype == DType::float64 ? require_finite_elements<double>(x) : require_finite_elements<float>(x);
}

double sum_of_squares_on_threads(const float* row, std::size_t count) { return sum_of_halves(row, count); }
double sum_of_squares_on_threads(const double* row, std::size_t count) { return sum_of_halves(row, count); }

namespace {

// Inlined: GCC drops calls of a function that does nothing but prefetch.
HUSHVEC_INLINE void fetch_ahead(const void* row, std::size_t bytes, Ahead ahead) {
    if (ahead == Ahead::pages) {
        for (std::size_t byte = 0; byte < std::min(bytes, kRowBytesAhead); byte += kPageBytes) prefetch_to_read(row, kRowBytesAhead + byte);
    } else if (ahead == Ahead::lines) {
        for (std::size_t byte = 0; byte < bytes; byte += kCacheLine) prefetch_for_later(row, kRowBytesAhead + byte);
    }
}

}  // namespace

template <class Scale>
double stage_row(const MatrixView& x, std::size_t row, Scale* copy, Ahead ahead) {
    if (x.dtype == dtype_of<Scale> && x.rows_are_contiguous()) {
        fetch_ahead(x.at(row, 0), x.columns * sizeof(Scale), ahead);
        return copy_and_square(reinterpret_cast<const Scale*>(x.at(row, 0)), x.columns, copy);
    }
    gather(x, row * x.columns, x.columns, copy);
    return sum_of_squares(copy, x.columns);
}

double row_scale(std::span<const float>, double sum_of_squares, double clip_norm) { return float32_scale(sum_of_squares, clip_norm); }

double row_scale(std::span<const double> row, double sum, double clip_norm) {
    if (std::isfinite(sum)) return float64_scale(sum, clip_norm);
    if (!all_finite(row.data(), row.size())) return std::numeric_limits<double>::quiet_NaN();
    double largest = 0;
    for (const double element : row) largest = std::max(largest, std::fabs(element));
    const int exponent = reduction_exponent(largest);
    const double factor = std::ldexp(1.0, -exponent);   // exact: a product with it is ldexp of the element, and vector code
    std::vector<double> reduced(row.size());
    for (std::size_t j = 0; j < row.size(); ++j) reduced[j] = row[j] * factor;
    return reduced_float64_scale(sum_of_squares(reduced.data(), reduced.size()), exponent, clip_norm);
}

// A row of one float32 has the norm |x| exactly: the square is exact in float64, and its root is x again. Scores of one query are
// 100,000 such rows; 3.0 ms without this, 0.3 ms with it (Intel Sapphire Rapids class).
template <class Scale>
std::size_t row_scales(const Scale* elements, std::size_t rows, std::size_t columns, double clip_norm, double grid, Scale* scales) {
    const Scale unchanged = in_grid_units(1.0, grid, Scale{});
    const double target = clip_norm * kClipMargin;
    for (std::size_t row = 0; row < rows; ++row) {
        if constexpr (std::is_same_v<Scale, float>) {
            if (columns == 1 && std::fabs(double{elements[row]}) <= target) {
                scales[row] = unchanged;
                continue;
            }
        }
        const std::span<const Scale> one(elements + row * columns, columns);
        const double scale = row_scale(one, sum_of_squares(one.data(), columns), clip_norm);
        if (std::isnan(scale)) return row;
        scales[row] = in_grid_units(scale, grid, Scale{});
    }
    return rows;
}

template double stage_row<float>(const MatrixView&, std::size_t, float*, Ahead);
template double stage_row<double>(const MatrixView&, std::size_t, double*, Ahead);
template std::size_t row_scales<float>(const float*, std::size_t, std::size_t, double, double, float*);
template std::size_t row_scales<double>(const double*, std::size_t, std::size_t, double, double, double*);

}  // namespace hushvec
