// The exact scales of rows in parts, by their norms: docs/format.md sections 4 and 7.
#pragma once

#include <cstddef>
#include <vector>

#include "clip/part_rows.hpp"
#include "hushvec/array.hpp"

namespace hushvec {

// The scale of each row, on all threads. Throws NonFinitePart for the first of them that is not finite.
std::vector<double> exact_scales(const std::vector<MatrixView>& parts, const std::vector<std::size_t>& rows, double clip_norm);

// The sums of squares of each part of each row, part after part, on all threads; Inf where one overflows. Throws NonFinitePart.
std::vector<double> part_squares(const std::vector<MatrixView>& parts);

// The scales of rows whose parts are multiplied by `factors` first: those times the one that brings the row so multiplied into the ball.
// `squares` as part_squares finds them, all three in its order. Throws std::invalid_argument for a factor that is negative or makes no
// finite norm.
std::vector<double> factored_scales(const std::vector<double>& squares, const std::vector<double>& factors, std::size_t rows, double clip_norm);

// The sums of squares of rows in one run of columns; one serves one thread.
class RunSquares {
public:
    RunSquares() : floats_(kRowsAtOnce), doubles_(1) {}

    // squares[i * step] is that of rows[i]. What lies bytes_ahead of the rows is fetched for a later call, if that is not 0.
    void find(const MatrixView& part, const Columns& run, const std::size_t* rows, std::size_t count, double* squares, std::size_t step,
              std::size_t bytes_ahead = 0);

    static constexpr std::size_t kRowsAtOnce = 8;

private:
    PartReader<float> floats_;
    PartReader<double> doubles_;
};

// Scales found on one thread: of few rows at a time, whose elements then are in its cache.
class RowScales {
public:
    RowScales(const std::vector<MatrixView>& parts, double clip_norm) : parts_(parts), clip_norm_(clip_norm), runs_(cut_columns(parts, kStretch)) {}

    // The rows that follow these are fetched if fetch_next. Throws NonFinitePart.
    void find(const std::vector<std::size_t>& rows, std::vector<double>& scales, bool fetch_next);

private:
    const std::vector<MatrixView>& parts_;
    double clip_norm_;
    std::vector<Columns> runs_;
    std::vector<double> partial_;
    RunSquares squares_;
};

}  // namespace hushvec
