// Noise-only fills: building blocks that carry no privacy claim.
#pragma once

#include "hushvec/array.hpp"
#include "hushvec/keystream.hpp"

namespace hushvec {

// The laws of noise. l2_laplace has density proportional to exp(-|z|_2 / scale) on a whole row.
enum class Law {
    gaussian,
    laplacian,
    l2_laplace,
};

// Largest accepted sigma, scale or clip_norm and smallest clip_norm: keeps every float32 product finite and normal.
inline constexpr double kLargestScale = 0x1p100;
inline constexpr double kSmallestScale = 0x1p-100;

// Writes scale * Z into out; scale is sigma for the Gaussian law. float32 arithmetic from 32 bits for float32, float16 and
// bfloat16 arrays, float64 from 64 bits for float64 ones. Throws std::invalid_argument unless 0 <= scale <= kLargestScale.
void fill_noise(const KeyStream& stream, Law law, double scale, const MatrixView& out);

}  // namespace hushvec
