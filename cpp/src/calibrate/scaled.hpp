// Numbers with an exponent of their own, so that delta = 1e-320 is as exact as delta = 0.1, and exp in that form.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>

namespace hushvec::calibration {

// fraction * 2^exponent. The fraction is near 1 by convention, not by invariant.
struct Scaled {
    double fraction;
    int exponent;
};

// value = fraction * 2^exponent with fraction in [1, 2); value > 0 and finite.
inline Scaled split(double value) {
    constexpr int kBias = 1023;
    constexpr int kFractionBits = 52;
    constexpr double kSmallestNormal = std::numeric_limits<double>::min();
    int lift = 0;
    if (value < kSmallestNormal) {
        lift = kFractionBits;
        value *= 0x1p52;
    }
    const auto bits = std::bit_cast<std::uint64_t>(value);
    const int biased = static_cast<int>(bits >> kFractionBits);
    const std::uint64_t one_exponent = std::uint64_t{kBias} << kFractionBits;
    const std::uint64_t fraction_mask = (std::uint64_t{1} << kFractionBits) - 1;
    return {std::bit_cast<double>((bits & fraction_mask) | one_exponent), biased - kBias - lift};
}

// 2^exponent for exponent in [-1022, 1023].
inline double power_of_two(int exponent) {
    return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

// exp(high + low), |low| <= 2^-50 |high|, |high| < 2^14.
//
// Range reduction by ln 2 in two parts (Cody and Waite), then the Taylor series to degree 13 on |r| <= 0.35, whose
// remainder is below 5e-18. Relative error at most 3e-16; valid whatever the fraction of `low`.
inline Scaled scaled_exp(double high, double low) {
    constexpr double kLog2E = 0x1.71547652b82fep+0;
    constexpr double kLn2High = 0x1.62e42fefp-1;          // 33 bits: k * kLn2High is exact for |k| < 2^20
    constexpr double kLn2Low = 0x1.473de6af278edp-34;
    constexpr double kRoundToInteger = 0x1.8p52;          // adding it leaves the nearest integer in the low bits
    const double k = (high * kLog2E + kRoundToInteger) - kRoundToInteger;
    const double r = ((high - k * kLn2High) - k * kLn2Low) + low;

    constexpr double kInverseFactorial[] = {1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120,
                                            1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880,
                                            1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
    constexpr int kLast = static_cast<int>(std::size(kInverseFactorial)) - 1;
    double tail = kInverseFactorial[kLast];
    for (int n = kLast - 1; n >= 0; --n) tail = tail * r + kInverseFactorial[n];
    return {1.0 + (r + r * r * tail), static_cast<int>(k)};
}

// The smallest double >= x, for x > 0.
inline double round_up(Scaled x) {
    const Scaled unit = split(x.fraction);
    const int exponent = unit.exponent + x.exponent;
    if (exponent > 1023) return std::numeric_limits<double>::infinity();
    if (exponent >= -1022) return unit.fraction * power_of_two(exponent);

    // Subnormal: count in units of the smallest one, and round the count up.
    constexpr int kSmallestExponent = -1074;
    if (exponent < kSmallestExponent) return std::numeric_limits<double>::denorm_min();
    const double count = std::ceil(unit.fraction * power_of_two(exponent - kSmallestExponent));
    return count * std::numeric_limits<double>::denorm_min();
}

}  // namespace hushvec::calibration
