// A whole row by the ladder alone: what a device leaves to the host, since float64 could not decide all of it.
#pragma once

#include <cstdint>
#include <span>

#include "hushvec/privunit.hpp"

namespace hushvec {

// y = grid * round(T) of row `row` of a call, whose direction is X (direction.hpp). first_level is RowLadder's.
void settle_row(const KeyStream& stream, PrivUnitLaw law, ExactGrid grid, std::uint64_t row, std::span<const float> direction, float* y,
                int first_level = 2);

}  // namespace hushvec
