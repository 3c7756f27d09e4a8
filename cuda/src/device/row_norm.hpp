// A row's q on a device: the sum of squares in the frozen order (docs/format.md section 4), one warp a row.
//
// Thread t of the warp is accumulator t: it takes elements t, t + 32, ... in order. One thread then adds the 32 as a tree.
#pragma once

#include "clip/row_scale_arithmetic.hpp"
#include "device/element.hpp"
#include "device/team.hpp"
#include "hushvec_cuda/source.hpp"

namespace hushvec::cuda {

inline constexpr unsigned kWarp = 32;

// The accumulators of one row. read(column) gives the element as stored.
template <class Index, class Read>
HUSHVEC_INLINE double accumulator(Index columns, unsigned t, Read read) {
    double sum = 0;
    HUSHVEC_UNROLL_BY(8)
    for (Index j = t; j < columns; j += kWarp) {
        const auto x = widened(read(j));
        if constexpr (std::is_same_v<decltype(x), const float>) {
            sum = std::fma(double{x}, double{x}, sum);   // fused or not, the same: the product is exact
        } else {
            sum += x * x;
        }
    }
    return sum;
}

// acc[k] += acc[k + h] for h = 16, 8, 4, 2, 1, read from the root down.
template <unsigned kStep = 1>
HUSHVEC_DEVICE inline double tree_sum(const double* accumulators, unsigned k = 0) {
    if constexpr (kStep == kWarp) {
        return accumulators[k];
    } else {
        const double left = tree_sum<2 * kStep>(accumulators, k);
        return left + tree_sum<2 * kStep>(accumulators, k + kStep);
    }
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
