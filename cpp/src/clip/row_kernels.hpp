// Norm and scaling of one contiguous row.
//
// Sum of squares: float64, 32 accumulators, element j into accumulator j mod 32 in order of j, then halved as a tree
// (docs/format.md section 4). The order is part of the format, so every instruction set gives the same bits:
// float32 squares are exact in float64, float64 squares are rounded before they are added (no fused multiply-add).
#pragma once

#include <cstddef>
#include <type_traits>

#include "lanes/inline.hpp"

namespace hushvec {

inline constexpr std::size_t kNormAccumulators = 32;

template <class V>
HUSHVEC_INLINE typename V::F64Pair load_as_float64(const float* p) { return V::load_widened(p); }
template <class V>
HUSHVEC_INLINE typename V::F64Pair load_as_float64(const double* p) { return V::load(p); }

// sum[0] + sum[1] + ..., halved as a tree.
template <class Number>
HUSHVEC_INLINE Number joined_accumulators(Number (&sum)[kNormAccumulators]) {
    for (std::size_t half = kNormAccumulators / 2; half > 0; half /= 2) {
        for (std::size_t k = 0; k < half; ++k) sum[k] += sum[k + half];
    }
    return sum[0];
}

// Rows this short: the same tree without the accumulators that are 0, whose addition changes no bit. 32 ns a row become 13.
inline constexpr std::size_t kFewElements = 8;

// Out of line, so that it costs longer rows one comparison; once for each V, since each is compiled for its own instructions.
template <class V, class Element>
[[gnu::noinline]] double sum_of_few_squares(const Element* row, std::size_t dimension) {
    double sum[kFewElements];
    for (std::size_t j = 0; j < dimension; ++j) sum[j] = static_cast<double>(row[j]) * static_cast<double>(row[j]);
    for (std::size_t half = kFewElements / 2; half > 0; half /= 2) {
        for (std::size_t k = 0; k + half < dimension; ++k) sum[k] += sum[k + half];
        dimension = dimension < half ? dimension : half;
    }
    return sum[0];
}

template <class V, class Element>
double sum_of_squares(const Element* row, std::size_t dimension) {
    if (dimension > 0 && dimension <= kFewElements) return sum_of_few_squares<V>(row, dimension);
    constexpr std::size_t vectors = kNormAccumulators / V::lanes;
    typename V::F64Pair accumulator[vectors];
    for (auto& vector : accumulator) vector = V::zero_pair();

    const std::size_t whole = dimension / kNormAccumulators * kNormAccumulators;
    for (std::size_t j = 0; j < whole; j += kNormAccumulators) {
        for (std::size_t v = 0; v < vectors; ++v) {
            const auto x = load_as_float64<V>(row + j + v * V::lanes);
            if constexpr (std::is_same_v<Element, float>) {
                accumulator[v] = V::multiply_add(x, x, accumulator[v]);   // fused or not, the same: the product is exact
            } else {
                accumulator[v] = V::add(accumulator[v], V::mul(x, x));
            }
        }
    }

    double sum[kNormAccumulators];
    for (std::size_t v = 0; v < vectors; ++v) V::store(sum + v * V::lanes, accumulator[v]);
    for (std::size_t j = whole; j < dimension; ++j) {
        const double x = static_cast<double>(row[j]);
        sum[j - whole] += x * x;
    }
    return joined_accumulators(sum);
}

template <class V>
void scale_row(const float* row, std::size_t dimension, float scale, float* out) {
    const auto factor = V::set(scale);
    std::size_t j = 0;
    for (; j + V::lanes <= dimension; j += V::lanes) V::store(out + j, V::mul(V::load(row + j), factor));
    for (; j < dimension; ++j) out[j] = row[j] * scale;
}

}  // namespace hushvec
