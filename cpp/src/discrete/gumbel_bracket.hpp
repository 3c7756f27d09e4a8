// Gumbel noise -ln(-ln u) in float64 from the first 64 bits of u, with a proved bracket and a cheap upper bound.
//
// e = 2^-53. The functions rest on minus_log of noise/float64_functions.hpp alone: relative error at most kMinusLogError = 2^-49.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "noise/float64_functions.hpp"

namespace hushvec {

// The real value lies in value +- error for every continuation of the known bits. An infinite error says nothing.
struct GumbelBracket {
    double value;
    double error;
};

inline constexpr GumbelBracket kUnknownGumbel = {0.0, std::numeric_limits<double>::infinity()};

// Sums of a few positive terms that are good to 2^-47 themselves: covers the rounding of the bounds.
inline constexpr double kBoundRounding = 1.0 + 0x1p-20;

// u in [prefix, prefix + 1] / 2^64, with the centre c and E = -ln u:
//
//     |E - E_c| <= 1 / (2 prefix)                      noise/ladder_float64.hpp
//     E~ = minus_log(c),  |E - E~| <= eta E~           eta = 1 / (2 prefix E~) + 2^-49, up to its own rounding
//     |ln E - ln E~| <= -ln(1 - eta) <= eta (1 + eta)
//     -ln E~ = minus_log(E~ / 64) - 6 ln 2             the first is at most 32, off by 2^-49 of itself; 6 ln 2 by 2^-51
//     the difference rounds by e of itself
//
// Where eta is above 2^-26 (prefix 0, and 2^-39 of the values at either end) the answer is "unknown": what remains has E~ in
// [2^-39, 45), so that E~ / 64 is a 53-bit integer over at most 2^97.
inline GumbelBracket gumbel_bracket(std::uint64_t prefix) {
    constexpr double kLargestEta = 0x1p-26;
    constexpr double kSixLn2 = 6 * 0x1.62e42fefa39efp-1;
    constexpr int kSignificandBits = 53;
    constexpr int kSixBits = 6;

    const double exponential = minus_log(Dyadic{2 * Uint128{prefix} + 1, 65});
    const double eta = (0.5 / (static_cast<double>(prefix) * exponential) + kMinusLogError) * kBoundRounding;
    if (!(eta <= kLargestEta)) return kUnknownGumbel;

    int exponent = 0;
    const double significand = std::frexp(exponential, &exponent);
    const Dyadic reduced = {static_cast<std::uint64_t>(std::ldexp(significand, kSignificandBits)), kSignificandBits + kSixBits - exponent};
    const double log = minus_log(reduced);
    const double value = log - kSixLn2;
    const double error = (eta + kMinusLogError * log + 0x1p-51 + 0x1p-53 * std::abs(value)) * kBoundRounding;
    return {value, error};
}

// At least the Gumbel noise of every u in [first, first + 1] / 2^32, up to a rounding of 2^-52 of itself: -ln u >= 1 - u >= z / 2^32 with
// z = 2^32 - 1 - first, so that -ln(-ln u) <= (32 - floor(log2 z)) ln 2. Infinite for z = 0.
inline double gumbel_cap(std::uint32_t first) {
    constexpr double kLn2Up = 0x1.62e42fefa39f0p-1;
    const std::uint32_t z = ~first;
    if (z == 0) return std::numeric_limits<double>::infinity();
    return (std::countl_zero(z) + 1) * kLn2Up;
}

}  // namespace hushvec
