// Level 4 of the exact ladder as far as one extension step goes, without a heap: for device code.
//
// Reads 256 bits behind the first word of each uniform: of a Gaussian's extension block all, of a Laplace sample's the first
// half (its second half would only matter for 1 sample in 2^250). A prefix that decides, decides what every longer one does,
// so the answer is settle_multiprecision's.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "lanes/inline.hpp"
#include "noise/fixed_point.hpp"
#include "noise/ladder.hpp"
#include "noise/ladder_brackets.hpp"
#include "noise/pooled_limbs.hpp"

namespace hushvec {

struct SettledByPrefix {
    std::int32_t index;   // n where decided, else the integer nearest to the midpoint
    bool decided;
};

namespace multiprecision {

inline constexpr std::size_t kFirstStepWords = 8;   // of each uniform
inline constexpr std::size_t kKnownWords = 1 + kFirstStepWords;

using FirstStepWords = std::array<std::uint32_t, kKnownWords>;
using FirstStepLimbs = PooledLimbs<kKnownWords + kGuardLimbs + kIntegerLimbs>;
using FirstStepNumber = FixedPoint<FirstStepLimbs>;

HUSHVEC_DEVICE inline FirstStepWords first_step_words(std::uint32_t first, const Block& extension, std::size_t offset) {
    FirstStepWords words{first};
    for (std::size_t i = 0; i < kFirstStepWords; ++i) words[1 + i] = extension[offset + i];
    return words;
}

HUSHVEC_DEVICE inline Bracket<FirstStepNumber> first_step_bracket(const GaussianWord& word, const Block& extension, double x, double s) {
    const FirstStepWords radius_words = first_step_words(word.radius_word, extension, 0);
    const FirstStepWords angle_words = first_step_words(word.angle_word, extension, kFirstStepWords);
    return gaussian_bracket<FirstStepNumber>(radius_words, angle_words, word.sine, x, s);
}

HUSHVEC_DEVICE inline Bracket<FirstStepNumber> first_step_bracket(const LaplaceWord& word, const Block& extension, double x, double s) {
    return laplace_bracket<FirstStepNumber>(first_step_words(word.word, extension, 0), x, s);
}

template <class Word>
HUSHVEC_COLD SettledByPrefix settle_first_step_of(const Word& word, const Block& extension, double x, double s) {
    if (decided_by(x)) return {saturated_at(x), true};
    const auto bracket = first_step_bracket(word, extension, x, s);
    const auto n = decide(bracket);
    return {n ? *n : nearest(bracket.centre), n.has_value()};
}

}  // namespace multiprecision

// Any x, 0 < s <= 128; first_extension is block (kFirstExtension, pair or sample) of the key stream.
HUSHVEC_DEVICE inline SettledByPrefix settle_first_step(const GaussianWord& word, const Block& first_extension, double x, double s) {
    return multiprecision::settle_first_step_of(word, first_extension, x, s);
}
HUSHVEC_DEVICE inline SettledByPrefix settle_first_step(const LaplaceWord& word, const Block& first_extension, double x, double s) {
    return multiprecision::settle_first_step_of(word, first_extension, x, s);
}

}  // namespace hushvec
