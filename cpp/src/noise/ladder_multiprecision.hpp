// Level 4 of the exact ladder on explicit bits: what settle_multiprecision does with the words of the key stream.
//
// The bits of a uniform are given as the extension blocks docs/format.md section 3 lists, so that a test can force any of them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "noise/fixed_point.hpp"
#include "noise/ladder.hpp"

namespace hushvec {

// Room for the 8 extension steps of either law.
using UnlimitedNumber = FixedPoint<std::vector<std::uint32_t>>;

// The extension block of this word in the given domain.
using ExtensionSource = std::function<Block(std::uint64_t domain_id)>;

struct SettledByBits {
    std::int32_t index;
    int steps;       // extension blocks read
    bool decided;    // false: the bits ran out and index is the nearest integer to the midpoint
};

// Needs |x| < 2^25 and 0 < s <= 128.
SettledByBits settle_by_bits(const GaussianWord& word, double x, double s, const ExtensionSource& extension);
SettledByBits settle_by_bits(const LaplaceWord& word, double x, double s, const ExtensionSource& extension);

}  // namespace hushvec
