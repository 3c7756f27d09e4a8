// Level 4 of the exact ladder where memory is short: the first extension step alone, on numbers of fixed size.
//
// 288 known bits of each uniform (A or W and eight words of E1; of the sixteen that a Laplace sample has, any eight that decide
// decide the same) leave a rounding open with probability below 2^-250; then the nearest integer to the midpoint is taken.
#pragma once

#include <array>

#include "noise/ladder_brackets.hpp"

namespace hushvec {

struct SettledByPrefix {
    std::int32_t index;
    bool decided;
};

namespace multiprecision {

inline constexpr std::size_t kFirstStepWords = 9;
using ShortNumber = BasicFixedPoint<std::array<std::uint32_t, kFirstStepWords + kGuardLimbs + 2>>;

HUSHVEC_DEVICE inline SettledByPrefix settled(const BasicBracket<ShortNumber>& bracket) {
    const std::optional<std::int32_t> n = decide(bracket);
    return {n ? *n : nearest(bracket.centre), n.has_value()};
}

}  // namespace multiprecision

HUSHVEC_COLD inline SettledByPrefix settle_first_step(const GaussianWord& word, const Block& extension, double x, double s) {
    using namespace multiprecision;
    if (decided_by(x)) return {saturated_at(x), true};
    std::uint32_t radius[kFirstStepWords] = {word.radius_word}, angle[kFirstStepWords] = {word.angle_word};
    for (std::size_t i = 1; i < kFirstStepWords; ++i) {
        radius[i] = extension[i - 1];
        angle[i] = extension[i + 7];
    }
    return settled(gaussian_bracket<ShortNumber>(radius, angle, word.sine, x, s));
}

HUSHVEC_COLD inline SettledByPrefix settle_first_step(const LaplaceWord& word, const Block& extension, double x, double s) {
    using namespace multiprecision;
    if (decided_by(x)) return {saturated_at(x), true};
    std::uint32_t words[kFirstStepWords] = {word.word};
    for (std::size_t i = 1; i < kFirstStepWords; ++i) words[i] = extension[i - 1];
    return settled(laplace_bracket<ShortNumber>(words, x, s));
}

}  // namespace hushvec
