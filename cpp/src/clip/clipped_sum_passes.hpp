// The readings of the rows of a sum: their norms, their exact sum, their sum by guessed scales.
#pragma once

#include <cstddef>
#include <vector>

#include "clip/clipped_sum_kernels.hpp"
#include "hushvec/array.hpp"

namespace hushvec {

// Some rows of the parts, each with the factor that clips it.
struct ScaledRows {
    std::vector<std::size_t> rows;
    std::vector<double> scales;      // in (0, 1]; of float32 where it is for float32 elements

    void push(std::size_t row, double scale) {
        rows.push_back(row);
        scales.push_back(scale);
    }
    std::size_t size() const { return rows.size(); }
};

// The memory of each part's sums is a multiple of this long, in elements.
inline constexpr std::size_t kSumPadding = 16;

// Where the sums of each part lie, in units.
struct Sums {
    std::vector<double*> of_part;
    double unit;
};

// The scale of each row by its norm: docs/format.md sections 4 and 7. Throws NonFinitePart.
std::vector<double> exact_scales(const std::vector<MatrixView>& parts, const std::vector<std::size_t>& rows, double clip_norm);

// Adds the rows; their scales clip them.
void put_clipped_rows(const std::vector<MatrixView>& parts, const ScaledRows& rows, const Sums& sums, bool sums_hold_rows);

// Adds or subtracts rows whose scales are guesses. Returns for each row the sum of the squares of its elements in units, NaN or Inf
// where it is not finite; only where that is at most the square of clip_norm in units have the elements gone in as they are.
std::vector<double> put_guessed_rows(const std::vector<MatrixView>& parts, const ScaledRows& rows, const Sums& sums, Put put);

}  // namespace hushvec
