// Rows brought to unit length, with bits that depend on nothing but the row: not on its neighbours, not on the machine.
#pragma once

#include "hushvec/array.hpp"

namespace hushvec {

// out = x with every row divided by its L2 norm: docs/format.md section 10. A row of zeros stays one. x is finite; x and out are the
// same memory or disjoint.
void unit_rows(const MatrixView& x, const MatrixView& out);

}  // namespace hushvec
