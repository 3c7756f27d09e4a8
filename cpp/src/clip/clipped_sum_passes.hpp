// The readings of the rows of a sum: rows with their scales into sums of units.
#pragma once

#include <cstddef>
#include <vector>

#include "clip/unit_sums.hpp"
#include "hushvec/array.hpp"

namespace hushvec {

// Some rows of the parts, each with the factor that clips it, or one for each of its parts.
struct ScaledRows {
    std::vector<std::size_t> rows;
    std::vector<double> scales;      // of float32 where it is for float32 elements
    std::size_t part_step = 0;       // from the scales of one part to those of the next; 0: they are the same

    void push(std::size_t row, double scale) {
        rows.push_back(row);
        scales.push_back(scale);
    }
    double scale(std::size_t part, std::size_t i) const { return scales[part * part_step + i]; }
    std::size_t size() const { return rows.size(); }
};

// The sums and what they count in.
struct Sums {
    UnitSums& units;
    double unit;
};

// Puts rows whose scales clip them.
void put_rows(const std::vector<MatrixView>& parts, const ScaledRows& rows, const Sums& sums, Put put);

// Puts rows whose scales are guesses. Returns for each row the sum of the squares of its elements in units, NaN or Inf where it is not
// finite; only where that is at most the square of clip_norm in units have the elements gone in as they are.
std::vector<double> put_guessed_rows(const std::vector<MatrixView>& parts, const ScaledRows& rows, const Sums& sums, Put put);

// Takes off rows that were added by guesses and adds rows whose scales clip them, in one reading where they are the same.
void replace_guessed_rows(const std::vector<MatrixView>& parts, const ScaledRows& guessed, const ScaledRows& right, const Sums& sums);

// Rows so short that some of them stay in a processor's cache between their norm and their sum.
bool are_short(const std::vector<MatrixView>& parts);

// Puts short rows by their exact scales, in one reading of memory. Throws NonFinitePart, and then the sums are as they were.
void put_short_rows(const std::vector<MatrixView>& parts, double clip_norm, const Sums& sums, Put put);

// Puts each of some short rows into the part that groups[row] names, by its exact scale. The sums have room for more than kRowsInOneSum
// rows. Throws NonFinitePart, and then they are as they were.
void put_grouped_rows(const MatrixView& rows, const std::uint32_t* groups, std::size_t group_count, double clip_norm, const Sums& sums, Put put);

}  // namespace hushvec
