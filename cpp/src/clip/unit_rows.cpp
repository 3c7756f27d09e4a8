#include "hushvec/unit_rows.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "array/line_vector.hpp"
#include "array/staging.hpp"
#include "clip/row_scale.hpp"
#include "dispatch/dispatch.hpp"
#include "lanes/inline.hpp"
#include "parallel/threads.hpp"

namespace hushvec {
namespace {

// `row` has this sum of squares. Squares of float32 numbers are exact in float64 and neither overflow nor vanish there. `to` may be `row`.
void to_unit_length(const float* row, std::size_t count, double sum_of_squares, float* to) {
    const double norm = std::sqrt(sum_of_squares);
    const double divisor = norm == 0 ? 1.0 : norm;
    HUSHVEC_INDEPENDENT
    for (std::size_t j = 0; j < count; ++j) to[j] = static_cast<float>(double{row[j]} / divisor);
}

void to_unit_length(std::vector<float>& row, double sum_of_squares) { to_unit_length(row.data(), row.size(), sum_of_squares, row.data()); }

// Scaled by a power of two first, so that the largest element is in [1/2, 1).
void to_unit_length(std::vector<double>& row, double) {
    double largest = 0;
    for (const double element : row) largest = std::max(largest, std::abs(element));
    if (largest == 0) return;
    int exponent = 0;
    std::frexp(largest, &exponent);
    for (double& element : row) element = std::ldexp(element, -exponent);
    const double norm = std::sqrt(active_kernels().sum_of_squares_f64(row.data(), row.size()));
    for (double& element : row) element /= norm;
}

// Flat float32 results need no second copy on their way out.
void run_direct(const MatrixView& x, const MatrixView& out) {
    parallel_ranges(x.rows, x.columns, [&] {
        return [&, row = LineVector<float>(x.columns)](std::size_t begin, std::size_t end) mutable {
            for (std::size_t i = begin; i < end; ++i) {
                const double sum_of_squares = stage_row(x, i, row.data());
                to_unit_length(row.data(), x.columns, sum_of_squares, reinterpret_cast<float*>(out.at(i, 0)));
            }
        };
    });
}

template <class Element>
void run(const MatrixView& x, const MatrixView& out) {
    parallel_ranges(x.rows, x.columns, [&] {
        return [&, row = std::vector<Element>(x.columns)](std::size_t begin, std::size_t end) mutable {
            for (std::size_t i = begin; i < end; ++i) {
                to_unit_length(row, stage_row(x, i, row.data()));
                scatter(row.data(), out, i * x.columns, x.columns, Rounding::nearest);
            }
        };
    });
}

}  // namespace

void unit_rows(const MatrixView& x, const MatrixView& out) {
    if (x.size() == 0) return;
    if (out.dtype == DType::float32 && out.rows_are_contiguous()) return run_direct(x, out);
    x.dtype == DType::float64 ? run<double>(x, out) : run<float>(x, out);
}

}  // namespace hushvec
