#include "hushvec/hadamard.hpp"

#include <cstddef>

namespace hushvec {
namespace {

// Elements that stay in a first-level cache while all of their butterflies are made.
constexpr std::size_t kInCache = 2048;

void butterflies(double* x, std::size_t half) {
    double* __restrict low = x;
    double* __restrict high = x + half;
    for (std::size_t i = 0; i < half; ++i) {
        const double a = low[i], b = high[i];
        low[i] = a + b;
        high[i] = a - b;
    }
}

void transform(double* x, std::size_t size) {
    if (size > kInCache) {
        transform(x, size / 2);
        transform(x + size / 2, size / 2);
        butterflies(x, size / 2);
        return;
    }
    for (std::size_t half = 1; half < size; half *= 2) {
        for (std::size_t begin = 0; begin < size; begin += 2 * half) butterflies(x + begin, half);
    }
}

}  // namespace

void hadamard_transform(const MatrixView& x) {
    for (std::size_t row = 0; row < x.rows; ++row) transform(reinterpret_cast<double*>(x.at(row, 0)), x.columns);
}

}  // namespace hushvec
