// The exact ladder where the noise of several streams adds up: the brackets of the terms do too. s is signed here, 0 < |s| <= 128.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "hushvec/keystream.hpp"
#include "lanes/inline.hpp"
#include "noise/ladder_brackets.hpp"
#include "noise/ladder_float64.hpp"

namespace hushvec {

// Where a pair has its words: in this block of domain::kMain, counted in lanes of groups.
HUSHVEC_DEVICE constexpr std::uint64_t lane_of_pair(std::uint64_t pair) { return pair / kGroupPairs * kGroupBlocks + pair % kGroupBlocks; }

HUSHVEC_DEVICE constexpr GaussianWord word_of_pair(std::uint64_t pair, const Block& block, bool sine) {
    const std::size_t word = static_cast<std::size_t>(pair % kGroupPairs / kGroupBlocks);
    return {pair, block[word], block[word + kBlockWords / 2], sine};
}

// Levels 2 and 3.
class Float64Combination {
public:
    HUSHVEC_DEVICE void add(const GaussianPrefix& known, double s) {
        const ScaledBracket bracket = scaled_bracket(known, std::fabs(s));
        value_ += s < 0 ? -bracket.value : bracket.value;
        magnitudes_ += std::fabs(bracket.value);
        half_widths_ += bracket.half_width;
        rounding_ += 0x1p-52;
    }

    // Every addition of two values rounds by at most 2^-53 of the magnitudes added so far; the half widths' own by kHalfWidthRounding.
    HUSHVEC_DEVICE ScaledBracket bracket() const { return {value_, (half_widths_ + rounding_ * magnitudes_) * kHalfWidthRounding}; }

private:
    double value_ = 0.0, magnitudes_ = 0.0, half_widths_ = 0.0;
    double rounding_ = 0.0;   // 2^-52 a term
};

namespace multiprecision {

// Level 4. The brackets are placed at 0 and X is added at the end: its truncation is within what `place` allows for it in each.
template <class Number>
class Combination {
public:
    HUSHVEC_DEVICE explicit Combination(std::size_t fraction_limbs) : sum_{Number(fraction_limbs), Number(fraction_limbs), true} {}

    HUSHVEC_COLD void add(WordSpan radius_words, WordSpan angle_words, bool sine, double s) {
        Bracket<Number> bracket = gaussian_bracket<Number>(radius_words, angle_words, sine, 0.0, std::fabs(s));
        if (s < 0) bracket.centre.negate();
        sum_.centre += bracket.centre;
        sum_.half_width += bracket.half_width;
        sum_.bounded = sum_.bounded && bracket.bounded;
    }

    HUSHVEC_COLD const Bracket<Number>& plus(double x) {
        sum_.centre += Number::truncated(sum_.centre.fraction_limbs(), x);
        return sum_;
    }

private:
    Bracket<Number> sum_;
};

}  // namespace multiprecision
}  // namespace hushvec
