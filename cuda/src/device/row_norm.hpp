// A row's q on a device: the sum of squares in the frozen order (docs/format.md section 4), one warp a row.
//
// Thread t of the warp is accumulator t: it takes elements t, t + 32, ... in order. The team adds the 32 as a tree.
#pragma once

#include "clip/row_scale_arithmetic.hpp"
#include "device/element.hpp"
#include "device/team.hpp"
#include "hushvec_cuda/source.hpp"

namespace hushvec::cuda {

HUSHVEC_INLINE double plus_square(double sum, float x) { return std::fma(double{x}, double{x}, sum); }   // fused or not, the same: the product is exact
HUSHVEC_INLINE double plus_square(double sum, double x) { return sum + x * x; }

// Accumulator t of one row. read(column) gives the element as stored. kAtOnce loads are under way before the chain of their squares.
template <unsigned kAtOnce = 8, class Index, class Read>
HUSHVEC_INLINE double accumulator(Index columns, unsigned t, Read read) {
    double sum = 0;
    Index j = t;
    for (; j + (kAtOnce - 1) * kWarp < columns; j += kAtOnce * kWarp) {
        decltype(read(j)) stored[kAtOnce];
        HUSHVEC_UNROLL
        for (unsigned k = 0; k < kAtOnce; ++k) stored[k] = read(j + k * kWarp);
        HUSHVEC_UNROLL
        for (unsigned k = 0; k < kAtOnce; ++k) sum = plus_square(sum, widened(stored[k]));
    }
    HUSHVEC_UNROLL_BY(1)
    for (; j < columns; j += kWarp) sum = plus_square(sum, widened(read(j)));
    return sum;
}

// float64 rows whose sum of squares overflows, or that hold NaN or Inf (then NaN): one thread walks the row.
template <class Read>
HUSHVEC_COLD double overflowed_scale(std::size_t columns, double clip_norm, Read read) {
    double largest = 0;
    for (std::size_t j = 0; j < columns; ++j) {
        const double x = widened(read(j));
        if (!std::isfinite(x)) return std::numeric_limits<double>::quiet_NaN();
        largest = std::fabs(x) > largest ? std::fabs(x) : largest;
    }
    const int exponent = reduction_exponent(largest);
    double accumulators[kWarp] = {};
    for (std::size_t j = 0; j < columns; ++j) {
        const double x = std::ldexp(static_cast<double>(widened(read(j))), -exponent);
        accumulators[j % kWarp] += x * x;
    }
    return reduced_float64_scale(tree_sum(accumulators), exponent, clip_norm);
}

// The factor into the ball; NaN for a row that holds NaN or Inf.
template <class Value, class Read>
HUSHVEC_INLINE double scale_from(double sum_of_squares, std::size_t columns, double clip_norm, Read read) {
    if constexpr (sizeof(Value) == sizeof(float)) {
        return float32_scale(sum_of_squares, clip_norm);
    } else {
        if (std::isfinite(sum_of_squares)) return float64_scale(sum_of_squares, clip_norm);
        return overflowed_scale(columns, clip_norm, read);
    }
}

}  // namespace hushvec::cuda
