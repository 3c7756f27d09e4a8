// The factor that brings each row into the ball, in units of the grid: q of docs/format.md section 4.
#pragma once

#include <vector>

#include "hushvec/array.hpp"

namespace hushvec {

// One q per row. Scale is float for float32, float16 and bfloat16 rows, double for float64 rows; grid is 1 for plain clipping.
// Throws NonFiniteRow for the first row that holds NaN or Inf.
template <class Scale>
std::vector<Scale> row_scales(const MatrixView& x, double clip_norm, double grid);

}  // namespace hushvec
