// The factor that brings each row into the ball, in units of the grid: q of docs/format.md section 4.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

#include "hushvec/array.hpp"

namespace hushvec {

// The scale of a row, NaN where it holds NaN or Inf. float is for float32, float16 and bfloat16 rows, double for float64 rows.
// The row must be memory that nobody else writes to: what is released under a scale is the very row that it was found for.
double row_scale(std::span<const float> row, double clip_norm);
double row_scale(std::span<const double> row, double clip_norm);

// q of rows that lie one after the other, of `columns` elements each. Returns how many come before the first with NaN or Inf.
template <class Scale>
std::size_t row_scales(const Scale* elements, std::size_t rows, std::size_t columns, double clip_norm, double grid, Scale* scales);

// The first row that threads found to hold NaN or Inf.
class FirstBadRow {
public:
    explicit FirstBadRow(std::size_t rows) : rows_(rows), first_(rows) {}

    void note(std::size_t row) {
        std::size_t known = first_.load();
        while (row < known && !first_.compare_exchange_weak(known, row)) {}
    }

    // Throws NonFiniteRow.
    void require_none(const MatrixView& x) const;

private:
    const std::size_t rows_;
    std::atomic<std::size_t> first_;
};

// Throws NonFiniteRow for the first row with NaN or Inf.
void require_finite(const MatrixView& x);

}  // namespace hushvec
