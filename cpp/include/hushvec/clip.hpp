// Clipping of rows to an L2 ball, and clipping fused with noise.
#pragma once

#include <stdexcept>
#include <vector>

#include "hushvec/array.hpp"
#include "hushvec/keystream.hpp"
#include "hushvec/noise.hpp"

namespace hushvec {

// The grid of an exact release (docs/format.md sections 5 and 16).
struct ExactGrid {
    float sigma;   // rounded up to float32; the scale of a Laplace release
    float grid;    // g, a power of two
};

// `half_words`: that of version 3. Throws std::invalid_argument outside the ranges of docs/format.md.
ExactGrid exact_grid(double sigma, double clip_norm, bool half_words = false);

// The grid of an int8 release (docs/format.md section 14): s = sigma / grid in [8, 16), or less where clip_norm / grid would be above 64.
// Throws std::invalid_argument where s would be below 1, and as exact_grid.
ExactGrid int8_grid(double sigma, double clip_norm);

// The same noise in units of its grid: what int8 values are made of.
inline ExactGrid in_grid_units(ExactGrid grid) { return {grid.sigma / grid.grid, 1}; }

// Whether anyone can see `out` before the call returns. A fresh one may hold part of a result when the call throws,
// and spares a second reading of x.
enum class Output {
    in_use,
    fresh,
};

// x holds NaN or Inf. Nothing was written to an output in use.
class NonFiniteRow : public std::invalid_argument {
public:
    NonFiniteRow(std::size_t row, double value);
};

// out = x scaled so that every row has |row|_2 <= clip_norm in real arithmetic. x and out have one shape and dtype and are
// the same memory or disjoint. Throws std::invalid_argument (clip_norm), before anything is written, or NonFiniteRow.
void clip(const MatrixView& x, double clip_norm, const MatrixView& out, Output output = Output::in_use);

// The parts' only rows, one after the other, in `out`: one flat row of their dtype.
void join_columns(const std::vector<MatrixView>& parts, const MatrixView& out);

// out = clip(x) + noise: exact rounding (docs/format.md section 5) or plain floating point. Returns the grid, 0 if not exact.
// Law::l2_laplace has no exact form. Same conditions and exceptions as clip. sigma = 0 clips only.
// An int8 `out` gets (clip(x) + noise) / grid, exactly rounded on int8_grid and saturated at +-127: Law::gaussian, exact, sigma > 0.
float clip_and_noise(const KeyStream& stream, const MatrixView& x, double clip_norm, double sigma, Law law, bool exact,
                     const MatrixView& out, Output output = Output::in_use);

}  // namespace hushvec
