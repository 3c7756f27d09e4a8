// The Walsh-Hadamard transform: rows times the symmetric matrix of signs (-1)^popcount(i & j), whose square is the identity times the
// number of columns.
#pragma once

#include "hushvec/array.hpp"

namespace hushvec {

// Each row of x, in place: float64, contiguous, as many columns as a power of two. Additions in the order of the butterflies, so that
// the bits are the same on every machine.
void hadamard_transform(const MatrixView& x);

}  // namespace hushvec
