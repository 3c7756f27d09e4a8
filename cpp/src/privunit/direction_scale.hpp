// From a row's norm to its direction X (docs/format.md section 8): IEEE operations alone. On the CPU and on a device.
#pragma once

#include <cmath>

#include "lanes/inline.hpp"

namespace hushvec {

// 2^21 / norm; 0 for a row of norm below 2^-100, which has no direction.
HUSHVEC_DEVICE inline double direction_scale(double norm) { return norm < 0x1p-100 ? 0.0 : 0x1p21 / norm; }

// X of an element of a float64 row.
HUSHVEC_DEVICE inline float direction_of(double element, double scale) { return static_cast<float>(std::rint(element * scale)); }

}  // namespace hushvec
