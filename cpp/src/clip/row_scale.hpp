// The factor that brings each row into the ball, in units of the grid: q of docs/format.md section 4.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

#include "hushvec/array.hpp"
#include "lanes/prefetch.hpp"

namespace hushvec {

// What is fetched kRowBytesAhead of a row while it is staged. AMD Zen 4, AVX-512, ns an element, against all lines into the first-level
// cache: clip of 10,000 x 768 float32 with one line a page .37 -> .25, of 20,000 x 384 .45 -> .29, of 128 x 768 .161 -> .151; exact noise on
// float64, 10,000 x 768, with all lines into the second-level cache 1.67 -> 1.31.
enum class Ahead {
    nothing,
    pages,   // one line of each, where rows are all that is read: hardware prefetchers do the rest, but stop at page ends
    lines,   // all of them, where work between rows keeps those from it
};

// Copies a row of x, each element in one reading, and returns the sum of the squares of the copy. Scale is float for float32, float16 and
// bfloat16 rows, double for float64 rows.
//
// Another thread may write to x meanwhile. Whatever is done with a row must be done with the copy that its norm was found for.
template <class Scale>
double stage_row(const MatrixView& x, std::size_t row, Scale* copy, Ahead ahead = Ahead::lines);

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
