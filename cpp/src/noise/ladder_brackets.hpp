// Level 4 of the exact ladder: fixed-point brackets of X + s * Z, for any type of fixed-point number.
//
// Precision. With n known bits of a uniform the arithmetic has F >= n + 96 bits behind the point, F < 2^13.
// All errors below are proved bounds, absolute, in ulps of 2^-F unless an exponent is written out. FixedPoint's product,
// quotient and root truncate by less than 1 ulp; its other operations are exact.
//
//     value                           error        where it is derived
//     odd_series                      F            there
//     ln 2, -ln m                     2 F          twice odd_series
//     L = -ln u                       2 F (n + 3) < 2^27      minus_log
//     cos, sin                        9 F < 2^17   cosine, sine
//     s * Z + X, beyond the interval  2^14         bracket_of
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>

#include "noise/fixed_point.hpp"
#include "noise/ladder.hpp"

namespace hushvec {

namespace multiprecision {

using WordSpan = std::span<const std::uint32_t>;

// X + s * Z is within half_width of centre for every continuation of the known bits.
template <class Number>
struct BasicBracket {
    Number centre;
    std::optional<Number> half_width;   // none: all known bits of u are 0 and -ln u is unbounded
};

inline constexpr std::size_t kGuardLimbs = 3;
static_assert(kGuardLimbs * 32 >= 96, "the error bounds in this file count on 96 guard bits");

// z + g z^3/3 + g^2 z^5/5 + ... with g = 1 (atanh) or g = -1 (atan), for |z| <= 1/3 known to 1 ulp, truncated towards 0.
//
// Error below F ulps. Square: 2/3 from z, 1 from truncation, < 5/3. Power: 1 for z itself, after that
// error/9 + (1/3)(5/3) + 1 each time, always < 2. Term: < 2/3 + 1 from the division, < 2. There are N <= F/3.16 + 1
// terms before the power truncates to 0 (3^-(2N+1) < 2^-F); what is left out is below 2 * 9/8 < 3.
// Sum: 2N + 3 <= 0.64 F + 5 < F for F >= 128.
template <class Number>
HUSHVEC_COLD Number odd_series(const Number& z, bool alternating) {
    const Number square = alternating ? -(z * z) : z * z;
    Number sum = z;
    Number power = z;
    for (std::uint32_t divisor = 3;; divisor += 2) {
        power = power * square;
        if (power.is_zero()) return sum;
        sum = sum + power / divisor;
    }
}

template <class Number>
HUSHVEC_COLD Number ln_2(std::size_t fraction_limbs) {
    const Number third = Number(fraction_limbs, 1) / 3;
    return odd_series(third, false).shifted_left(1);   // 2 atanh(1/3)
}

// Machin: 16 atan(1/5) - 4 atan(1/239). Error below 20 F ulps.
template <class Number>
HUSHVEC_COLD Number pi(std::size_t fraction_limbs) {
    const Number one(fraction_limbs, 1);
    return odd_series(one / 5, true).shifted_left(4) - odd_series(one / 239, true).shifted_left(2);
}

// -ln u for an exact u in [2^-(n+1), 1). u = 2^-k m with m in [1/2, 1):
//
//     -ln u = k ln 2 - 2 atanh((m - 1) / (m + 1)),      (m - 1) / (m + 1) in [-1/3, 0)
//
// m is exact: k <= n + 1 < F. Both terms are >= 0, so nothing cancels. Error: 2 F k + 2 F <= 2 F (n + 3) < 2^27 ulps.
template <class Number>
HUSHVEC_COLD Number minus_log(const Number& u) {
    const Number one(u.fraction_limbs(), 1);
    const int k = -1 - u.top_bit();
    const Number m = u.shifted_left(k);
    const Number minus_log_m = -odd_series((m - one) / (m + one), false).shifted_left(1);
    const Number doublings = Number(u.fraction_limbs(), static_cast<std::uint32_t>(k));
    return doublings * ln_2<Number>(u.fraction_limbs()) + minus_log_m;
}

// The Taylor series with the terms first, first * -q / (d (d + 1)), ... for d = first_divisor, first_divisor + 2, ...:
// q = y^2 < 0.62 known to 1 ulp, first <= 1 exact.
//
// Error below 2 F ulps. A term's error is at most (0.62 error + 1 (q) + 1 (product)) / 2 + 1 (division) < 3. Terms shrink by
// 0.31 or more, so N <= F/1.69 + 1 come before one truncates to 0, and what is left out is below 3 * 1.5 < 5.
// Sum: 3N + 5 <= 1.78 F + 8 < 2 F for F >= 128.
template <class Number>
HUSHVEC_COLD Number taylor(const Number& first, const Number& q, std::uint32_t first_divisor) {
    Number sum = first;
    Number term = first;
    for (std::uint32_t divisor = first_divisor;; divisor += 2) {
        term = -(term * q) / (divisor * (divisor + 1));
        if (term.is_zero()) return sum;
        sum = sum + term;
    }
}

// cos and sin of y = pi w, w in [0, 1/4] exact. y is off by at most 20 F / 4 + 1 ulps (F of them times pi's error, one
// truncation), and so are its cosine and sine; the series add 2 F: below 9 F < 2^17 ulps together.
template <class Number>
HUSHVEC_COLD Number cosine(const Number& y) { return taylor(Number(y.fraction_limbs(), 1), y * y, 1); }
template <class Number>
HUSHVEC_COLD Number sine(const Number& y) { return taylor(y, y * y, 2); }

// cos (or sin) of pi v, v in (-1/2, 1/2) exact. Folding |v| > 1/4 to 1/2 - |v| swaps sine and cosine.
template <class Number>
HUSHVEC_COLD Number cosine_or_sine(const Number& v, bool want_sine) {
    const std::size_t limbs = v.fraction_limbs();
    const Number quarter = Number::upper_power_of_two(limbs, -2);
    const Number half = Number::upper_power_of_two(limbs, -1);
    const Number magnitude = v.magnitude();
    const bool folded = compare_magnitudes(magnitude, quarter) > 0;
    const Number y = pi<Number>(limbs) * (folded ? half - magnitude : magnitude);
    const Number value = want_sine != folded ? sine(y) : cosine(y);
    return want_sine && v.negative() ? -value : value;
}

// A uniform u in [P, P + 1] / 2^n.
template <class Number>
struct KnownUniform {
    Number centre;     // (2P + 1) / 2^(n+1), exact; 2^-n where P = 0
    int prefix_bits;   // bit width of P; 0: P = 0
};

template <class Number>
HUSHVEC_COLD KnownUniform<Number> known_uniform(const Number& low_end, int known_bits) {
    const std::size_t limbs = low_end.fraction_limbs();
    if (low_end.is_zero()) return {Number::upper_power_of_two(limbs, -known_bits), 0};
    return {low_end + Number::upper_power_of_two(limbs, -known_bits - 1), low_end.top_bit() + known_bits + 1};
}

// first.rest[0] rest[1] ... where only the low 31 bits of the first word count, as bits 1/2 and below.
template <class Number>
HUSHVEC_COLD Number fraction_from_31_bits(std::size_t fraction_limbs, std::uint32_t first, WordSpan rest) {
    return Number::from_fraction(fraction_limbs, first, rest).shifted_left(1);
}

// X + s * Z, for a Z in error by at most z_half_width (as a real number, |Z| <= 2^12).
//
// s is truncated to S, X too: |X + s Z - (X' + S Z')| <= S z_half_width + 1 ulp |Z| + 1 (product) + 1 (X), where the product
// S z_half_width truncates by 1 more: below 2^12 + 3 < 2^14 ulps.
// |Z| <= 2^12: u >= 2^-n gives L <= 4127 ln 2 < 2861, and a radius is at most sqrt(2 * 2080 ln 2) < 54.
template <class Number>
HUSHVEC_COLD BasicBracket<Number> bracket_of(const Number& z, const std::optional<Number>& z_half_width, double x, double s) {
    const std::size_t limbs = z.fraction_limbs();
    const Number scale = Number::truncated(limbs, s);
    BasicBracket<Number> bracket{Number::truncated(limbs, x) + scale * z, std::nullopt};
    if (z_half_width) {
        const Number rounding = Number::upper_power_of_two(limbs, 14 - z.fraction_bits());
        bracket.half_width = scale * *z_half_width + rounding;
    }
    return bracket;
}

HUSHVEC_DEVICE inline std::int32_t saturated(std::uint64_t magnitude, bool negative) {
    const auto n = static_cast<std::int32_t>(std::min<std::uint64_t>(magnitude, kMaxGridIndex));
    return negative ? -n : n;
}

// X alone decides: |s Z| <= 128 * 2861 < 2^19 cannot bring X + s Z back below 2^24.
inline constexpr double kDecidedByX = 0x1p25;

HUSHVEC_DEVICE inline bool decided_by(double x) { return !(std::abs(x) < kDecidedByX); }

HUSHVEC_DEVICE inline std::int32_t saturated_at(double x) { return x > 0 ? kMaxGridIndex : -kMaxGridIndex; }

// With b the bit width of P, P >= 2^(b-1). The interval (noise/ladder_float64.hpp) and the error of L give
//
//     |L - L'| <= 1/(2P) + 2^27 ulps <= 2^-b + 2^(27-F) <= 2^(1-b)                  b <= n <= F - 96
//     |r - r'| <= 2 |L - L'| / sqrt(2L') + 1 ulp <= 2^(2-b-j) + 1 ulp               2^j <= r' <= sqrt(2L'), r' truncated
//     |c - c'| <= pi 2^-(m+1) + 2^17 ulps <= 2^(2-m)                                m known bits of v, m <= F - 96
//     |r c - r' c'| <= |r - r'| |c| + r' |c - c'| + 1 ulp <= 2^(2-b-j) + 2^(3+j-m) + 2 ulps      r' < 2^(j+1)
//
// primes being the computed values, c the cosine or sine (|c| <= 1). L' > 0: L >= 2^-(n+1) > 2^27 ulps at the centre.
template <class Number>
HUSHVEC_COLD BasicBracket<Number> gaussian_bracket(WordSpan radius_words, WordSpan angle_words, bool sine, double x, double s) {
    const std::size_t limbs = radius_words.size() + kGuardLimbs;
    const int radius_bits = static_cast<int>(radius_words.size()) * Number::kLimbBits;
    const int angle_bits = radius_bits - 1;

    const KnownUniform<Number> u = known_uniform(Number::from_fraction(limbs, radius_words[0], radius_words.subspan(1)), radius_bits);
    const Number radius = sqrt(minus_log(u.centre).shifted_left(1));

    const std::uint32_t angle_word = angle_words[0];
    const bool half_turn = (angle_word >> 31) != 0;
    const Number bit_30(limbs, angle_word >> 30 & 1);
    const Number v = fraction_from_31_bits<Number>(limbs, angle_word & 0x7fffffff, angle_words.subspan(1)) - bit_30 +
                         Number::upper_power_of_two(limbs, -angle_bits - 1);
    const Number cosine = cosine_or_sine(v, sine);

    std::optional<Number> half_width;
    if (u.prefix_bits > 0) {
        const int j = radius.top_bit();
        const int fraction_bits = radius.fraction_bits();
        half_width = Number::upper_power_of_two(limbs, 2 - u.prefix_bits - j) +
                     Number::upper_power_of_two(limbs, 3 + j - angle_bits) +
                     Number::upper_power_of_two(limbs, 1 - fraction_bits);
    }
    const Number z = radius * cosine;
    return bracket_of(half_turn ? -z : z, half_width, x, s);
}

// |L - L'| <= 2^(1-b), as above.
template <class Number>
HUSHVEC_COLD BasicBracket<Number> laplace_bracket(WordSpan words, double x, double s) {
    const std::size_t limbs = words.size() + kGuardLimbs;
    const int known_bits = static_cast<int>(words.size()) * Number::kLimbBits - 1;
    const bool negative = (words[0] & 1) != 0;
    const KnownUniform<Number> u = known_uniform(fraction_from_31_bits<Number>(limbs, words[0] >> 1, words.subspan(1)), known_bits);
    const Number z = minus_log(u.centre);

    std::optional<Number> half_width;
    if (u.prefix_bits > 0) half_width = Number::upper_power_of_two(limbs, 1 - u.prefix_bits);
    return bracket_of(negative ? -z : z, half_width, x, s);
}

// |centre| + 1/2 = N + f: everything in the bracket rounds to N (with the sign) iff half_width < f < 1 - half_width.
template <class Number>
HUSHVEC_COLD std::optional<std::int32_t> decide(const BasicBracket<Number>& bracket) {
    if (!bracket.half_width) return std::nullopt;
    const std::size_t limbs = bracket.centre.fraction_limbs();
    const Number shifted = bracket.centre.magnitude() + Number::upper_power_of_two(limbs, -1);
    const Number fraction = shifted.fraction_of_magnitude();
    const bool above = compare_magnitudes(fraction, *bracket.half_width) > 0;
    const bool below = compare_magnitudes(fraction + *bracket.half_width, Number(limbs, 1)) < 0;
    if (!above || !below) return std::nullopt;
    return saturated(shifted.integer_part(), bracket.centre.negative());
}

template <class Number>
HUSHVEC_COLD std::int32_t nearest(const Number& centre) {
    const Number half = Number::upper_power_of_two(centre.fraction_limbs(), -1);
    return saturated((centre.magnitude() + half).integer_part(), centre.negative());
}

}  // namespace multiprecision
}  // namespace hushvec
