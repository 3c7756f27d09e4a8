// Level 4 of the exact ladder on explicit bits: what settle_multiprecision does with the words of the key stream.
//
// The bits of a uniform are given as the words docs/format.md section 3 lists, most significant first, so that
// a test can force any of them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "noise/fixed_point.hpp"
#include "noise/ladder_brackets.hpp"
#include "noise/ladder.hpp"

namespace hushvec {

using Bracket = multiprecision::BasicBracket<FixedPoint>;

// radius_words: A, E1[0..7], E2[0..7], ...      angle_words: B, E1[8..15], E2[8..15], ...
// Both of the same length, 1 to 65. Needs |x| < 2^25 and 0 < s <= 128.
Bracket gaussian_bracket(std::span<const std::uint32_t> radius_words, std::span<const std::uint32_t> angle_words, bool sine,
                         double x, double s);

// words: W, E1[0..15], E2[0..15], ...; length 1 to 129.
Bracket laplace_bracket(std::span<const std::uint32_t> words, double x, double s);

// The one integer that everything in the bracket rounds to, saturated; none where there are two.
std::optional<std::int32_t> decide(const Bracket& bracket);

// The integer nearest to the centre, saturated.
std::int32_t nearest(const FixedPoint& centre);

// The extension block of this word in the given domain.
using ExtensionSource = std::function<Block(std::uint64_t domain_id)>;

struct SettledByBits {
    std::int32_t index;
    int steps;       // extension blocks read
    bool decided;    // false: the bits ran out and index is the nearest integer to the midpoint
};

// Needs |x| < 2^25, as above.
SettledByBits settle_by_bits(const GaussianWord& word, double x, double s, const ExtensionSource& extension);
SettledByBits settle_by_bits(const LaplaceWord& word, double x, double s, const ExtensionSource& extension);

}  // namespace hushvec
