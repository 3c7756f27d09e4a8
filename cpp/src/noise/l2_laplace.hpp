// L2-Laplace noise on rows: a uniform direction times a Gamma(d) radius. Density proportional to exp(-|z|_2 / scale).
//
// Hardt and Talwar (2010), section 4: z = scale * R * G / |G|, G standard normal in d dimensions, R ~ Gamma(d, 1).
// Floating point throughout (float64 here, from float32 normals unless the array is float64): the receipt says `float`.
#pragma once

#include <cstdint>
#include <vector>

#include "hushvec/array.hpp"
#include "hushvec/keystream.hpp"

namespace hushvec {

void fill_l2_laplace(const KeyStream& stream, double scale, const MatrixView& out);

// Rows first .. first + rows - 1 of a call over rows of `columns` elements, row after row.
void l2_laplace_rows(const KeyStream& stream, double scale, std::size_t first, std::size_t rows, std::size_t columns, bool wide,
                     double* out);

}  // namespace hushvec
