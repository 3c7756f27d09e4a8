// Levels 2 and 4 of PrivUnitG's rounding: whole rows in float64, and in multiprecision where float64 cannot decide.
// row_float64.hpp has the formulas.
//
// Level 1 (row_round.hpp) leaves a few rows in a hundred with an open element; float64 decides all but 1 in 10^9 of those.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hushvec/keystream.hpp"
#include "noise/ladder_multiprecision.hpp"
#include "privunit/component.hpp"
#include "privunit/row_float64.hpp"

namespace hushvec {

// One row of a call, as the ladder needs it.
struct PrivUnitRow {
    std::uint64_t first_sample;
    std::span<const float> direction;   // X
    double squares;                     // R^2; 0: no direction, T = s Z
    Component component;
    double threshold;
};

class RowLadder {
public:
    RowLadder(const KeyStream& stream, const PrivUnitRow& row, double s);

    // round(T_column), from the first level that can tell, but none before `first_level` (2 or 4).
    std::int32_t round(std::size_t column, int first_level = 2);

private:
    void find_float64();
    void find_multiprecision();
    std::int32_t round_multiprecision(std::size_t column, double estimate);

    const KeyStream& stream_;
    const PrivUnitRow row_;
    const double s_;

    std::vector<double> z_;        // of whole groups from the row's first one
    std::size_t offset_;           // of the row in them
    float64_row::Push push_ = {};  // k

    std::vector<UnlimitedNumber> exact_z_;   // empty until level 4 is needed
    std::vector<UnlimitedNumber> exact_;     // R^2 / 2^42 and (alpha R - D) / 2^21
};

}  // namespace hushvec
