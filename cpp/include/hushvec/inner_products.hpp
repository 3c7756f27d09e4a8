// Inner products of rows, with bits that depend on nothing but the two rows: not on where they lie in their matrices, not on what is
// computed beside them, not on the number of threads. Libraries for matrix products promise none of that, so rows that are equal may
// score differently there, and whoever ranks by scores breaks ties by place.
#pragma once

#include "hushvec/array.hpp"

namespace hushvec {

// out[i, j] = <a_i, b_j>, each summed as products/product_kernels.hpp says. All three have one dtype, float32 or float64, and
// contiguous rows; a and b have as many columns, out is [rows of a, rows of b] and overlaps neither.
void inner_products(const MatrixView& a, const MatrixView& b, const MatrixView& out);

}  // namespace hushvec
