// The exact clip of rows of whole numbers (docs/proofs/discrete_gaussian.md, claim 1): a row of a norm N above C becomes the integer part of
// x C / N, the others stay as they are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "noise/float64_functions.hpp"

namespace hushvec {

// A whole number below 2^448, by its limbs, the lowest first.
class Natural {
public:
    explicit Natural(Uint128 value = 0) : limbs_{static_cast<std::uint64_t>(value), static_cast<std::uint64_t>(value >> 64)} {}

    void add(Uint128 value);
    Natural times(std::uint64_t factor) const;
    Natural times_power_of_two(int exponent) const;
    bool operator<=(const Natural& other) const;
    double to_double() const;   // below 2^192; relative error at most 3 * 2^-53

private:
    std::array<std::uint64_t, 7> limbs_{};
};

class WholeClip {
public:
    // In the L2 norm if `squares`, else in the L1 norm. 1 <= clip_norm < infinity, at most 2^40 columns.
    WholeClip(bool squares, double clip_norm, std::size_t columns);

    void clip(std::int64_t* rows, std::size_t count);

private:
    void clip_row(std::int64_t* row);
    Natural power_of(const Natural& factor, std::uint64_t size) const { return squares_ ? factor.times(size).times(size) : factor.times(size); }
    std::int64_t exactly(std::int64_t element, double q, const Natural& total) const;

    static constexpr std::size_t kPiece = 1024;

    // With C = c 2^e a row of total N (or N^2) is too long where total 2^shift_ > bound_, c 2^(e + shift) or its square.
    const bool squares_;
    const double clip_norm_;
    const std::size_t columns_;
    int shift_;
    Natural bound_;
    std::uint64_t limit_;   // bound_ 2^-shift_, rounded down, or 2^64 - 1
    alignas(64) std::int64_t scaled_[kPiece] = {};
};

}  // namespace hushvec
