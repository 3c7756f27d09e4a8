// Level 4 of the exact ladder, the arithmetic: a fixed-point bracket of X + s * Z from the known bits of the uniforms.
//
// `Number` is a FixedPoint: with std::vector for as many bits as it takes, with PooledLimbs for one step without a heap.
// The result does not depend on which.
//
// Precision. With n known bits of a uniform the arithmetic has F >= n + 96 bits behind the point, 128 <= F < 2^13.
// The first extension step reads 9 words: F = 384, n = 288 for a Gaussian's u (287 for its v), 287 for the Laplace u.
// All errors below are proved bounds, absolute, in ulps of 2^-F unless an exponent is written out. FixedPoint's product,
// quotient and root truncate by less than 1 ulp; its other operations are exact.
//
//     value                           error        where it is derived
//     odd_series                      F            there
//     ln 2, -ln m                     2 F          twice odd_series
//     L = -ln u                       2 F (n + 3) < 2^27      minus_log
//     cos, sin                        9 F < 2^17   cosine, sine
//     s * Z + X, beyond the interval  2^14         place
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "lanes/inline.hpp"
#include "noise/fixed_point.hpp"
#include "noise/ladder.hpp"

namespace hushvec::multiprecision {

using WordSpan = std::span<const std::uint32_t>;

inline constexpr std::size_t kGuardLimbs = 3;
static_assert(kGuardLimbs * kLimbBits >= 96, "the error bounds in this file count on 96 guard bits");

// X + s * Z is within half_width of centre for every continuation of the known bits.
template <class Number>
struct Bracket {
    Number centre;
    Number half_width;
    bool bounded;   // false: all known bits of u are 0, -ln u is unbounded, and half_width says nothing
};

// z + g z^3/3 + g^2 z^5/5 + ... with g = 1 (atanh) or g = -1 (atan), for |z| <= 1/3 known to 1 ulp, truncated towards 0.
//
// Error below F ulps. Square: 2/3 from z, 1 from truncation, < 5/3. Power: 1 for z itself, after that
// error/9 + (1/3)(5/3) + 1 each time, always < 2. Term: < 2/3 + 1 from the division, < 2. There are N <= F/3.16 + 1
// terms before the power truncates to 0 (3^-(2N+1) < 2^-F); what is left out is below 2 * 9/8 < 3.
// Sum: 2N + 3 <= 0.64 F + 5 < F for F >= 128.
template <class Number>
HUSHVEC_COLD Number odd_series(const Number& z, bool alternating) {
    Number square = z * z;
    if (alternating) square.negate();
    Number sum = z;
    Number power = z;
    for (std::uint32_t divisor = 3;; divisor += 2) {
        power = power * square;
        if (power.is_zero()) return sum;
        Number term = power;
        term /= divisor;
        sum += term;
    }
}

// The same at z = 1 / integer, times 2^doublings.
template <class Number>
HUSHVEC_COLD Number odd_series_of_reciprocal(std::size_t fraction_limbs, std::uint32_t integer, bool alternating, int doublings) {
    Number z(fraction_limbs, 1);
    z /= integer;
    Number sum = odd_series(z, alternating);
    sum.shift_left(doublings);
    return sum;
}

// 2 atanh(1/3)
template <class Number>
HUSHVEC_COLD Number ln_2(std::size_t fraction_limbs) {
    return odd_series_of_reciprocal<Number>(fraction_limbs, 3, false, 1);
}

// Machin: 16 atan(1/5) - 4 atan(1/239). Error below 20 F ulps.
template <class Number>
HUSHVEC_COLD Number pi(std::size_t fraction_limbs) {
    Number result = odd_series_of_reciprocal<Number>(fraction_limbs, 5, true, 4);
    result -= odd_series_of_reciprocal<Number>(fraction_limbs, 239, true, 2);
    return result;
}

// (m - 1) / (m + 1)
template <class Number>
HUSHVEC_COLD Number atanh_argument(const Number& m) {
    const Number one(m.fraction_limbs(), 1);
    Number numerator = m;
    numerator -= one;
    Number denominator = m;
    denominator += one;
    return numerator / denominator;
}

// -ln u for an exact u in [2^-(n+1), 1). u = 2^-k m with m in [1/2, 1):
//
//     -ln u = k ln 2 - 2 atanh((m - 1) / (m + 1)),      (m - 1) / (m + 1) in [-1/3, 0)
//
// m is exact: k <= n + 1 < F. Both terms are >= 0, so nothing cancels. Error: 2 F k + 2 F <= 2 F (n + 3) < 2^27 ulps.
template <class Number>
HUSHVEC_COLD Number minus_log(const Number& u) {
    const int k = -1 - u.top_bit();
    Number m = u;
    m.shift_left(k);
    Number result = odd_series(atanh_argument(m), false);
    result.shift_left(1);
    result.negate();
    const Number doublings(u.fraction_limbs(), static_cast<std::uint32_t>(k));
    result += doublings * ln_2<Number>(u.fraction_limbs());
    return result;
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
        term = term * q;
        term.negate();
        term /= divisor * (divisor + 1);
        if (term.is_zero()) return sum;
        sum += term;
    }
}

// cos and sin of y = pi w, w in [0, 1/4] exact. y is off by at most 20 F / 4 + 1 ulps (F of them times pi's error, one
// truncation), and so are its cosine and sine; the series add 2 F: below 9 F < 2^17 ulps together.
template <class Number>
HUSHVEC_COLD Number cosine(const Number& y) {
    return taylor(Number(y.fraction_limbs(), 1), y * y, 1);
}
template <class Number>
HUSHVEC_COLD Number sine(const Number& y) {
    return taylor(y, y * y, 2);
}

// cos (or sin) of pi v, v in (-1/2, 1/2) exact. Folding |v| > 1/4 to 1/2 - |v| swaps sine and cosine.
template <class Number>
HUSHVEC_COLD Number cosine_or_sine(const Number& v, bool want_sine) {
    const std::size_t limbs = v.fraction_limbs();
    Number w = v;
    w.drop_sign();
    const bool folded = smaller_magnitude(Number::upper_power_of_two(limbs, -2), w);
    if (folded) {
        w.negate();
        w.add_upper_power_of_two(-1);
    }
    w = pi<Number>(limbs) * w;
    w = want_sine != folded ? sine(w) : cosine(w);
    if (want_sine && v.negative()) w.negate();
    return w;
}

// A uniform u in [P, P + 1] / 2^n.
template <class Number>
struct KnownUniform {
    Number centre;          // (2P + 1) / 2^(n+1), exact; 2^-n where P = 0
    int prefix_bits;        // bit width of P; 0: P = 0
};

template <class Number>
HUSHVEC_COLD KnownUniform<Number> known_uniform(const Number& low_end, int known_bits) {
    const std::size_t limbs = low_end.fraction_limbs();
    if (low_end.is_zero()) return {Number::upper_power_of_two(limbs, -known_bits), 0};
    KnownUniform<Number> u{low_end, low_end.top_bit() + known_bits + 1};
    u.centre.add_upper_power_of_two(-known_bits - 1);
    return u;
}

// The centre of v's interval, from B and its extension words: bits 30 to 0 of B are the bits 1/2 and below, and bit 30 counts -1.
template <class Number>
HUSHVEC_COLD Number angle_centre(WordSpan angle_words, int angle_bits) {
    const std::size_t limbs = angle_words.size() + kGuardLimbs;
    const std::uint32_t first = angle_words[0];
    Number v = Number::from_fraction(limbs, first & 0x7fffffff, angle_words.subspan(1));
    v.shift_left(1);
    v.add_upper_power_of_two(-angle_bits - 1);
    v -= Number(limbs, first >> 30 & 1);
    return v;
}

// Turns a bracket of Z into one of X + s * Z. Z is in error by at most its half width (as a real number, |Z| <= 2^12).
//
// s is truncated to S, X too: |X + s Z - (X' + S Z')| <= S half_width + 1 ulp |Z| + 1 (product) + 1 (X), where the product
// S half_width truncates by 1 more: below 2^12 + 3 < 2^14 ulps.
// |Z| <= 2^12: u >= 2^-n gives L <= 4127 ln 2 < 2861, and a radius is at most sqrt(2 * 2080 ln 2) < 54.
template <class Number>
HUSHVEC_COLD void place(Bracket<Number>& bracket, double x, double s) {
    const std::size_t limbs = bracket.centre.fraction_limbs();
    const Number scale = Number::truncated(limbs, s);
    bracket.centre = scale * bracket.centre;
    bracket.centre += Number::truncated(limbs, x);
    bracket.half_width = scale * bracket.half_width;
    bracket.half_width.add_upper_power_of_two(14 - bracket.centre.fraction_bits());
}

// With b the bit width of P, P >= 2^(b-1). The interval (noise/ladder_float64.hpp) and the error of L give
//
//     |L - L'| <= 1/(2P) + 2^27 ulps <= 2^-b + 2^(27-F) <= 2^(1-b)                  b <= n <= F - 96
//     |r - r'| <= 2 |L - L'| / sqrt(2L') + 1 ulp <= 2^(2-b-j) + 1 ulp               2^j <= r' <= sqrt(2L'), r' truncated
//     |c - c'| <= pi 2^-(m+1) + 2^17 ulps <= 2^(2-m)                                m known bits of v, m <= F - 96
//     |r c - r' c'| <= |r - r'| |c| + r' |c - c'| + 1 ulp <= 2^(2-b-j) + 2^(3+j-m) + 2 ulps      r' < 2^(j+1)
//
// primes being the computed values, c the cosine or sine (|c| <= 1). L' > 0: L >= 2^-(n+1) > 2^27 ulps at the centre.
//
// radius_words: A, E1[0..7], E2[0..7], ...      angle_words: B, E1[8..15], E2[8..15], ...
// Both of the same length, 1 to 65. Needs |x| < 2^25 and 0 < s <= 128.
template <class Number>
HUSHVEC_COLD Bracket<Number> unit_gaussian_bracket(WordSpan radius_words, WordSpan angle_words, bool sine) {
    const std::size_t limbs = radius_words.size() + kGuardLimbs;
    const int radius_bits = static_cast<int>(radius_words.size()) * kLimbBits;
    const int angle_bits = radius_bits - 1;

    KnownUniform<Number> u = known_uniform(Number::from_fraction(limbs, radius_words[0], radius_words.subspan(1)), radius_bits);
    Number& radius = u.centre;
    radius = minus_log(radius);
    radius.shift_left(1);
    radius = sqrt(radius);
    const int j = radius.top_bit();

    Bracket<Number> bracket{cosine_or_sine(angle_centre<Number>(angle_words, angle_bits), sine),
                            Number::upper_power_of_two(limbs, 2 - u.prefix_bits - j), u.prefix_bits > 0};
    bracket.centre = radius * bracket.centre;
    if (angle_words[0] >> 31 != 0) bracket.centre.negate();
    bracket.half_width.add_upper_power_of_two(3 + j - angle_bits);
    bracket.half_width.add_upper_power_of_two(1 - radius.fraction_bits());
    return bracket;
}

// Of x + s Z. Two functions: as one, it would spill registers on sm_80.
template <class Number>
HUSHVEC_COLD Bracket<Number> gaussian_bracket(WordSpan radius_words, WordSpan angle_words, bool sine, double x, double s) {
    Bracket<Number> bracket = unit_gaussian_bracket<Number>(radius_words, angle_words, sine);
    place(bracket, x, s);
    return bracket;
}

// |L - L'| <= 2^(1-b), as above.
//
// words: W, E1[0..15], E2[0..15], ...; length 1 to 129, and 9 after half a step. Needs |x| < 2^25 and 0 < s <= 128.
template <class Number>
HUSHVEC_COLD Bracket<Number> laplace_bracket(WordSpan words, double x, double s) {
    const std::size_t limbs = words.size() + kGuardLimbs;
    const int known_bits = static_cast<int>(words.size()) * kLimbBits - 1;
    Number low_end = Number::from_fraction(limbs, words[0] >> 1, words.subspan(1));
    low_end.shift_left(1);
    const KnownUniform<Number> u = known_uniform(low_end, known_bits);

    Bracket<Number> bracket{minus_log(u.centre), Number::upper_power_of_two(limbs, 1 - u.prefix_bits), u.prefix_bits > 0};
    if ((words[0] & 1) != 0) bracket.centre.negate();
    place(bracket, x, s);
    return bracket;
}

HUSHVEC_DEVICE inline std::int32_t saturated(std::uint64_t magnitude, bool negative) {
    constexpr std::uint64_t kMax = kMaxGridIndex;
    const auto n = static_cast<std::int32_t>(magnitude < kMax ? magnitude : kMax);
    return negative ? -n : n;
}

// |value| + 1/2
template <class Number>
HUSHVEC_COLD Number magnitude_plus_half(const Number& value) {
    Number result = value;
    result.drop_sign();
    result.add_upper_power_of_two(-1);
    return result;
}

// The one integer that everything in the bracket rounds to, saturated; none where there are two.
//
// |centre| + 1/2 = N + f: everything in the bracket rounds to N (with the sign) iff half_width < f < 1 - half_width.
template <class Number>
HUSHVEC_COLD std::optional<std::int32_t> decide(const Bracket<Number>& bracket) {
    if (!bracket.bounded) return std::nullopt;
    Number fraction = magnitude_plus_half(bracket.centre);
    const std::uint64_t integer = fraction.integer_part();
    fraction.drop_integer_part();
    if (!smaller_magnitude(bracket.half_width, fraction)) return std::nullopt;
    fraction += bracket.half_width;
    if (!smaller_magnitude(fraction, Number(fraction.fraction_limbs(), 1))) return std::nullopt;
    return saturated(integer, bracket.centre.negative());
}

// The integer nearest to the centre, saturated.
template <class Number>
HUSHVEC_COLD std::int32_t nearest(const Number& centre) {
    return saturated(magnitude_plus_half(centre).integer_part(), centre.negative());
}

// X alone decides: |s Z| <= 128 * 2861 < 2^19 cannot bring X + s Z back below 2^24.
inline constexpr double kDecidedByX = 0x1p25;

HUSHVEC_DEVICE inline bool decided_by(double x) { return !(std::abs(x) < kDecidedByX); }

HUSHVEC_DEVICE inline std::int32_t saturated_at(double x) { return x > 0 ? kMaxGridIndex : -kMaxGridIndex; }

}  // namespace hushvec::multiprecision
