// The factor that brings each row into the ball, in units of the grid: q of docs/format.md section 4.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "hushvec/array.hpp"

namespace hushvec {

// Throws NonFiniteRow with the first NaN or Inf of a row that has one.
[[noreturn]] void throw_non_finite(const MatrixView& x, std::size_t row);

// One q per row, found in ranges of rows that threads may share out. Scale is float for float32, float16 and bfloat16 rows,
// double for float64 rows; grid is 1 for plain clipping.
template <class Scale>
class RowScales {
public:
    RowScales(const MatrixView& x, double clip_norm, double grid);

    // Finds q of rows [begin, end); false where one of them holds NaN or Inf, with the rows behind it left out.
    bool find(std::size_t begin, std::size_t end);

    // Throws NonFiniteRow for the first row that find met with NaN or Inf.
    void require_finite() const;

    const std::vector<Scale>& values() const { return scales_; }

private:
    bool is_one_short_element(std::size_t row) const;
    double scale_of_row(std::size_t row, std::vector<Scale>& buffer) const;

    const MatrixView x_;
    const double clip_norm_;
    const double grid_;
    const bool direct_;   // rows can be read where they lie
    std::vector<Scale> scales_;
    std::atomic<std::size_t> first_bad_;
};

}  // namespace hushvec
