// -ln u, sin(pi w) and cos(pi w) in float64 with proved errors: the arithmetic of ladder levels 2 and 3.
//
// Arguments are exact dyadic rationals (an integer over a power of two), so every reduction is exact integer arithmetic
// and nothing cancels near u = 1, v = 0 or v = 1/2. The only operations trusted are IEEE 754 binary64 +, -, *, /, sqrt
// and the conversion of a 64-bit integer, each correctly rounded: relative error at most
//
//     e = 2^-53          ("unit" below; second-order terms are inside the slack left by the named constants)
//
// No libm function and no fused multiply-add is relied upon, and contraction to one could only remove a rounding.
//
//   function    range                              max error (proved)            constant
//   minus_log   0 < u < 1                          relative 10.2 e               kMinusLogError = 16 e
//   sin_pi      0 <= w <= 1/4                      absolute  6.4 e               kSinCosError   = 16 e
//   cos_pi      0 <= w <= 1/4                      absolute 11.0 e               kSinCosError   = 16 e
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "lanes/inline.hpp"

namespace hushvec {

__extension__ using Uint128 = unsigned __int128;
__extension__ using Int128 = __int128;

inline constexpr double kMinusLogError = 0x1p-49;   // relative
inline constexpr double kSinCosError = 0x1p-49;     // absolute

// numerator / 2^bits with bits <= 100.
struct Dyadic {
    Uint128 numerator;
    int bits;
};

// 2^-bits, exactly.
HUSHVEC_DEVICE constexpr double reciprocal_power_of_two(int bits) {
    return std::bit_cast<double>(static_cast<std::uint64_t>(1023 - bits) << 52);
}

// Relative error at most 2 e for integer < 2^117: the high half converts exactly, the low half and the sum round once each.
HUSHVEC_DEVICE constexpr double to_double(Uint128 integer) {
    return static_cast<double>(static_cast<std::uint64_t>(integer >> 64)) * 0x1p64 +
           static_cast<double>(static_cast<std::uint64_t>(integer));
}

HUSHVEC_DEVICE constexpr double to_double(Dyadic value) {
    return to_double(value.numerator) * reciprocal_power_of_two(value.bits);
}

// Of an integer above 0. Not std::bit_width: libstdc++ makes it of __builtin_clzl, which nvcc compiles to a constant in device code.
HUSHVEC_DEVICE constexpr int bit_width(Uint128 integer) {
    const auto high = static_cast<std::uint64_t>(integer >> 64);
    return high != 0 ? 128 - __builtin_clzll(high) : 64 - __builtin_clzll(static_cast<std::uint64_t>(integer));
}

// coefficients[0] + coefficients[1] x + ..., by Horner's rule.
template <std::size_t kTerms>
HUSHVEC_DEVICE constexpr double polynomial(const std::array<double, kTerms>& coefficients, double x) {
    double sum = coefficients[kTerms - 1];
    for (std::size_t i = kTerms - 1; i-- > 0;) sum = sum * x + coefficients[i];
    return sum;
}

// -ln u for 0 < u < 1; relative error at most kMinusLogError.
//
//   u = 2^-k (1 + f), f in [-1/3, 1/3)        -ln u = k ln 2 - ln(1 + f)
//   ln(1 + f) = 2 atanh z = 2 z (1 + z^2 T(z^2)),   z = f / (2 + f),   T(w) = 1/3 + w/5 + w^2/7 + ...
//
// Proof. |z| <= 1/5 (at f = -1/3), so w = z^2 <= 1/25.
//   f    2 e, by to_double; the scaling is exact.
//   z    the error of f enters 2 + f multiplied by |f / (2 + f)| <= 1/5; then one rounding, and one of the division:
//        2 + 2/5 + 1 + 1 < 4.6 e.
//   w    2 * 4.6 + 1 = 10.2 e. It enters 1 + w T(w) multiplied by w (w T)' / (1 + w T) < 0.0145: 0.15 e.
//   T    cut after w^10/23: the rest of the series of w T is below w^12 / 25 / (1 - w) < 2^-60, 0.01 e.
//        All terms are positive, so Horner's relative error is at most one e an operation on the longest path:
//        10 products, 10 sums and the coefficient, 21 e.
//   w T is at most 0.0138 of the sum, and so carries (21 + 1) * 0.0138 < 0.31 e into it; the sum itself rounds: 1 e.
//   2 z (...)  4.6 + 0.15 + 0.01 + 1.31 + 1 for the product < 7.2 e. Doubling is exact. Call it 8 e.
//   k = 0: the result is -ln(1 + f): 8 e.
//   k > 0: a = k ln 2 carries 2 e (constant, product), b = ln(1 + f) is in [-0.4055, 0.2877]. The error relative to a - b
//        is largest at k = 1, b = 0.2877: (2 * 0.6931 + 8 * 0.2877) / 0.4055 + 1 for the difference < 10.2 e.
HUSHVEC_DEVICE constexpr double minus_log(Dyadic u) {
    constexpr double kLn2 = 0x1.62e42fefa39efp-1;
    constexpr std::array<double, 11> kT = {1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13,
                                           1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23};
    const Uint128 one = Uint128{1} << u.bits;
    int k = u.bits - bit_width(u.numerator);
    Uint128 significand = u.numerator << k;          // [1/2, 1) of one
    if (3 * significand < 2 * one) {                 // [2/3, 4/3) of one
        significand <<= 1;
        ++k;
    }
    const bool below_one = significand < one;
    const double distance = to_double({below_one ? one - significand : significand - one, u.bits});
    const double f = below_one ? -distance : distance;

    const double z = f / (2.0 + f);
    const double w = z * z;
    const double log_significand = 2.0 * (z * (1.0 + w * polynomial(kT, w)));
    return static_cast<double>(k) * kLn2 - log_significand;
}

// pi w for 0 <= w <= 1/4: relative error at most 2 (w) + 0.4 (constant) + 1 (product) = 3.4 e, absolute at most 2.7 e.
HUSHVEC_DEVICE constexpr double pi_times(Dyadic w) {
    constexpr double kPi = 0x1.921fb54442d18p+1;
    return kPi * to_double(w);
}

// sin(pi w) for 0 <= w <= 1/4; absolute error at most kSinCosError.
//
//   sin y = y (1 + q S(q)),  q = y^2 <= 0.61686,  S(q) = -1/3! + q/5! - ... to q^7/17!
//
// Proof.
//   y    2.7 e absolute; the derivative is at most 1: 2.7 e.
//   The rest of the series is below y^19 / 19! < 2^-63.
//   q S  q carries 1 e. Horner's error is at most one e an operation on the longest path (7 products, 7 sums, the
//        coefficient, the powers of q, and the last product: 24 e) times the sum of the absolute terms,
//        sinh(y)/y - 1 < 0.107: 2.6 e. The sum 1 + q S rounds: 1 e.
//   y (...)  3.6 e times y <= 0.7854, and one rounding of a value below 0.7072: 3.6 e.
//   Together 2.7 + 3.6 < 6.4 e.
HUSHVEC_DEVICE constexpr double sin_pi(Dyadic w) {
    constexpr std::array<double, 8> kS = {-1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880,
                                          -1.0 / 39916800.0, 1.0 / 6227020800.0, -1.0 / 1307674368000.0,
                                          1.0 / 355687428096000.0};
    const double y = pi_times(w);
    const double q = y * y;
    return y * (1.0 + q * polynomial(kS, q));
}

// cos(pi w) for 0 <= w <= 1/4; absolute error at most kSinCosError.
//
//   cos y = 1 + q C(q),  q = y^2 <= 0.61686,  C(q) = -1/2! + q/4! - ... to q^7/16!
//
// Proof.
//   y    2.7 e absolute; the derivative is at most sin(pi/4) < 0.7072: 2.0 e.
//   The rest of the series is below y^18 / 18! < 2^-58, 0.04 e.
//   q C  as above, at most 24 e times the sum of the absolute terms, cosh(y) - 1 < 0.3247: 7.8 e. The sum rounds: 1 e.
//   Together 2.0 + 0.1 + 7.8 + 1 < 11 e.
HUSHVEC_DEVICE constexpr double cos_pi(Dyadic w) {
    constexpr std::array<double, 8> kC = {-1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320,
                                          -1.0 / 3628800.0, 1.0 / 479001600.0, -1.0 / 87178291200.0,
                                          1.0 / 20922789888000.0};
    const double y = pi_times(w);
    const double q = y * y;
    return 1.0 + q * polynomial(kC, q);
}

}  // namespace hushvec
