// Norm and scaling of one contiguous row.
//
// Sum of squares: float64, 32 accumulators, element j into accumulator j mod 32 in order of j, then halved as a tree
// (docs/format.md section 4). The order is part of the format, so every instruction set gives the same bits:
// float32 squares are exact in float64, float64 squares are rounded before they are added (no fused multiply-add).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <type_traits>

#include "lanes/inline.hpp"
#include "lanes/prefetch.hpp"

namespace hushvec {

inline constexpr std::size_t kNormAccumulators = 32;

template <class V>
HUSHVEC_INLINE typename V::F64Pair load_as_float64(const float* p) { return V::load_widened(p); }
template <class V>
HUSHVEC_INLINE typename V::F64Pair load_as_float64(const double* p) { return V::load(p); }

// sum[0] + sum[1] + ..., halved as a tree.
template <class Number, std::size_t count>
HUSHVEC_INLINE Number joined_accumulators(Number (&sum)[count]) {
    for (std::size_t half = count / 2; half > 0; half /= 2) {
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
HUSHVEC_INLINE void add_square(typename V::F64Pair x, typename V::F64Pair& accumulator) {
    if constexpr (std::is_same_v<Element, float>) {
        accumulator = V::multiply_add(x, x, accumulator);   // fused or not, the same: the product is exact
    } else {
        accumulator = V::add(accumulator, V::mul(x, x));
    }
}

// Adds the squares of 32 elements to the accumulators.
template <class V, class Element, std::size_t vectors>
HUSHVEC_INLINE void add_squares(const Element* elements, typename V::F64Pair (&accumulator)[vectors]) {
    for (std::size_t v = 0; v < vectors; ++v) add_square<V, Element>(load_as_float64<V>(elements + v * V::lanes), accumulator[v]);
}

// The same tree, in registers until one vector is left.
template <class V, std::size_t vectors>
HUSHVEC_INLINE double joined_vectors(const typename V::F64Pair (&accumulator)[vectors]) {
    typename V::F64Pair sum[vectors];
    std::copy_n(accumulator, vectors, sum);
    for (std::size_t half = vectors / 2; half > 0; half /= 2) {
        for (std::size_t v = 0; v < half; ++v) sum[v] = V::add(sum[v], sum[v + half]);
    }
    double lanes[V::lanes];
    V::store(lanes, sum[0]);
    return joined_accumulators(lanes);
}

// Of the accumulators and `rest` more elements, fewer than 32.
template <class V, class Element, std::size_t vectors>
HUSHVEC_INLINE double joined_squares(const typename V::F64Pair (&accumulator)[vectors], const Element* elements, std::size_t rest) {
    if (rest == 0) return joined_vectors<V>(accumulator);
    double sum[kNormAccumulators];
    for (std::size_t v = 0; v < vectors; ++v) V::store(sum + v * V::lanes, accumulator[v]);
    for (std::size_t j = 0; j < rest; ++j) {
        const double x = static_cast<double>(elements[j]);
        sum[j] += x * x;
    }
    return joined_accumulators(sum);
}

template <class V, class Element>
double sum_of_squares(const Element* row, std::size_t dimension) {
    if (dimension > 0 && dimension <= kFewElements) return sum_of_few_squares<V>(row, dimension);
    typename V::F64Pair accumulator[kNormAccumulators / V::lanes];
    for (auto& vector : accumulator) vector = V::zero_pair();
    const std::size_t whole = dimension / kNormAccumulators * kNormAccumulators;
    for (std::size_t j = 0; j < whole; j += kNormAccumulators) add_squares<V>(row + j, accumulator);
    return joined_squares<V>(accumulator, row + whole, dimension - whole);
}

// The accumulators of one half, 0 or 1: 16 of them. What two threads can do of the sum of a long row; elements behind the last 32 are left.
template <class V, class Element>
void half_of_squares(const Element* row, std::size_t dimension, std::size_t half, double* sums) {
    constexpr std::size_t width = kNormAccumulators / 2, vectors = width / V::lanes;
    typename V::F64Pair accumulator[vectors];
    for (auto& vector : accumulator) vector = V::zero_pair();
    for (std::size_t j = half * width; j + kNormAccumulators <= dimension + half * width; j += kNormAccumulators) add_squares<V>(row + j, accumulator);
    for (std::size_t v = 0; v < vectors; ++v) V::store(sums + v * V::lanes, accumulator[v]);
}

// ---- rows that another thread may write to ----

// Copies 32 elements, each in one reading, and adds the squares of the copy to the accumulators.
template <class V, std::size_t vectors>
HUSHVEC_INLINE void copy_and_add_squares(const float* row, float* copy, typename V::F64Pair (&accumulator)[vectors]) {
    for (std::size_t v = 0; v < vectors; ++v) add_square<V, float>(V::copy_widened(row + v * V::lanes, copy + v * V::lanes), accumulator[v]);
}

// Copies a row, each element in one reading, and returns the sum of the squares of the copy. The fences keep the compiler from taking a
// value from the row once more. Sixteen lanes of float32 are squared while they are in registers: clip of 127 x 768 on Zen 4 .268 -> .240 ns
// an element. With fewer that costs more than it saves (.247 -> .253), and squares follow a page behind, as a load of half of what was just
// stored waits: .23 -> .15 on Zen 3.
template <class V, class Element>
double copy_and_square(const Element* row, std::size_t dimension, Element* copy) {
    typename V::F64Pair accumulator[kNormAccumulators / V::lanes];
    for (auto& vector : accumulator) vector = V::zero_pair();
    const std::size_t whole = dimension / kNormAccumulators * kNormAccumulators;
    if constexpr (V::lanes == 16 && std::is_same_v<Element, float>) {
        for (std::size_t j = 0; j < whole; j += kNormAccumulators) copy_and_add_squares<V>(row + j, copy + j, accumulator);
    } else {
        constexpr std::size_t at_once = 4096 / sizeof(Element);
        for (std::size_t begin = 0; begin < whole; begin += at_once) {
            const std::size_t end = std::min(whole, begin + at_once);
            for (std::size_t j = begin; j < end; j += V::lanes) V::store(copy + j, V::load(row + j));
            std::atomic_signal_fence(std::memory_order_seq_cst);
            for (std::size_t j = begin; j < end; j += kNormAccumulators) add_squares<V>(copy + j, accumulator);
        }
    }
    std::copy(row + whole, row + dimension, copy + whole);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (dimension > 0 && dimension <= kFewElements) return sum_of_few_squares<V>(copy, dimension);
    return joined_squares<V>(accumulator, copy + whole, dimension - whole);
}

// Zero times each element: NaN where it is NaN or Inf.
template <class V, class Element>
bool all_finite(const Element* elements, std::size_t count) {
    constexpr std::size_t at_once = 64, vectors = at_once / V::lanes;
    using Vector = decltype(V::load(elements));
    const Vector zero = V::set(Element{0});
    Vector sum[vectors];
    for (auto& vector : sum) vector = zero;
    const std::size_t whole = count / at_once * at_once;
    for (std::size_t j = 0; j < whole; j += at_once) {
        prefetch_run(elements + j, at_once * sizeof(Element), kRowBytesAhead);
        for (std::size_t v = 0; v < vectors; ++v) sum[v] = V::multiply_add(V::load(elements + j + v * V::lanes), zero, sum[v]);
    }
    for (std::size_t v = 1; v < vectors; ++v) sum[0] = V::add(sum[0], sum[v]);
    Element lanes[V::lanes];
    V::store(lanes, sum[0]);
    Element total = 0;
    for (const Element lane : lanes) total += lane;
    for (std::size_t j = whole; j < count; ++j) total += elements[j] * Element{0};
    return total == 0;
}

template <class V>
void scale_row(const float* row, std::size_t dimension, float scale, float* out) {
    const auto factor = V::set(scale);
    std::size_t j = 0;
    for (; j + V::lanes <= dimension; j += V::lanes) V::store(out + j, V::mul(V::load(row + j), factor));
    for (; j < dimension; ++j) out[j] = row[j] * scale;
}

}  // namespace hushvec
