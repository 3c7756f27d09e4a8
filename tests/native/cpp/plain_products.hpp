// An inner product summed as products/product_kernels.hpp says.
#pragma once

#include <cmath>
#include <cstddef>

#include "products/product_kernels.hpp"

namespace hushvec::test {

template <class Element>
Element by_definition(const Element* a, const Element* b, std::size_t columns, bool fused) {
    Element sum[kPartialSums] = {};
    for (std::size_t k = 0; k < columns; ++k) {
        Element& partial = sum[k % kPartialSums];
        partial = fused ? std::fma(a[k], b[k], partial) : partial + a[k] * b[k];
    }
    for (std::size_t half = kPartialSums / 2; half > 0; half /= 2) {
        for (std::size_t l = 0; l < half; ++l) sum[l] += sum[l + half];
    }
    return sum[0];
}

}  // namespace hushvec::test
