// The factor that brings each row into the ball, in units of the grid: q of docs/format.md section 4.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

#include "hushvec/array.hpp"
#include "lanes/prefetch.hpp"

namespace hushvec {

// Copies a row of x, each element in one reading, and returns the sum of the squares of the copy. Scale is float for float32, float16 and
// bfloat16 rows, double for float64 rows.
//
// Another thread may write to x meanwhile. Whatever is done with a row must be done with the copy that its norm was found for.
// What lies bytes_ahead of a row is fetched, if that is not 0.
template <class Scale>
double stage_row(const MatrixView& x, std::size_t row, Scale* copy, std::size_t bytes_ahead = kRowBytesAhead);

// Of a long row that nobody writes to, on two threads.
double sum_of_squares_on_threads(const float* row, std::size_t count);
double sum_of_squares_on_threads(const double* row, std::size_t count);

// The scale of a row of this sum of squares, NaN where it holds NaN or Inf.
double row_scale(std::span<const float> row, double sum_of_squares, double clip_norm);
double row_scale(std::span<const double> row, double sum_of_squares, double clip_norm);

// q of staged rows that lie one after the other, of `columns` elements each. Returns how many come before the first with NaN or Inf.
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
