// Levels 2 and 3 of the exact ladder: X + s * Z bracketed in float64 from the first bits of each uniform.
//
// One evaluation serves both levels: it takes the known bits as an integer, evaluates at the centre of the interval
// those bits leave open, and answers if the whole interval, widened by every rounding error, rounds to one integer.
//
// u in [P, P + 1] / 2^b has the centre c = (2P + 1) / 2^(b+1) and the half width h = 2^-(b+1). With L = -ln u:
//
//     |L - L_c|  <= -ln(1 - h/c) <= h / (c - h) = 1 / (2P)
//     |r - r_c|   = 2 |L - L_c| / (r + r_c) <= 1 / (P r_c)                          r = sqrt(2L) >= 0
//     |a - a_c|  <= pi / 2^(b+1)                                                     the angle a
//     |r cos a - r_c cos a_c| <= |r - r_c| |cos a| + r_c |cos a - cos a_c| <= |r - r_c| + r_c |a - a_c|
//
// and the same with the sine. P = 0 leaves L unbounded: the computed half width is infinite and nothing is accepted.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "lanes/inline.hpp"
#include "noise/float64_functions.hpp"
#include "noise/ladder.hpp"

namespace hushvec {

// One uniform: it lies in [prefix, prefix + 1] / 2^bits.
struct UniformPrefix {
    Uint128 prefix;
    int bits;
};

// The angle is pi * (v + half_turn), v in [prefix, prefix + 1] / 2^bits, within [-1/2, 1/2].
struct AnglePrefix {
    Int128 prefix;
    int bits;
    bool half_turn;
};

struct GaussianPrefix {
    UniformPrefix radius;
    AnglePrefix angle;
    bool sine;
};

struct LaplacePrefix {
    UniformPrefix magnitude;
    bool negative;
};

// Level 2: the first word alone.
HUSHVEC_DEVICE constexpr GaussianPrefix known_bits(const GaussianWord& word) {
    const std::int64_t v = static_cast<std::int32_t>(word.angle_word << 1) >> 1;   // the low 31 bits, signed
    return {{word.radius_word, 32}, {v, 31, (word.angle_word >> 31) != 0}, word.sine};
}

HUSHVEC_DEVICE constexpr LaplacePrefix known_bits(const LaplaceWord& word) {
    return {{word.word >> 1, 31}, (word.word & 1) != 0};
}

HUSHVEC_DEVICE constexpr Uint128 first_64_bits(const Block& extension, std::size_t first) {
    return (Uint128{extension[first]} << 32) | extension[first + 1];
}

// Level 3: 64 bits of the first extension block behind the first word.
HUSHVEC_DEVICE constexpr GaussianPrefix known_bits(const GaussianWord& word, const Block& extension) {
    GaussianPrefix known = known_bits(word);
    known.radius = {(known.radius.prefix << 64) | first_64_bits(extension, 0), known.radius.bits + 64};
    known.angle.prefix = known.angle.prefix * (Int128{1} << 64) + static_cast<Int128>(first_64_bits(extension, 8));
    known.angle.bits += 64;
    return known;
}

HUSHVEC_DEVICE constexpr LaplacePrefix known_bits(const LaplaceWord& word, const Block& extension) {
    LaplacePrefix known = known_bits(word);
    known.magnitude = {(known.magnitude.prefix << 64) | first_64_bits(extension, 0), known.magnitude.bits + 64};
    return known;
}

HUSHVEC_DEVICE constexpr Dyadic centre(const UniformPrefix& known) { return {2 * known.prefix + 1, known.bits + 1}; }

// cos (or sin) of the angle at the centre of its interval; absolute error at most kSinCosError.
// Folding |v| > 1/4 to 1/2 - |v| swaps sine and cosine; both are exact integers.
HUSHVEC_DEVICE constexpr double centre_cosine_or_sine(const AnglePrefix& angle, bool sine) {
    const Int128 v = 2 * angle.prefix + 1;
    const int bits = angle.bits + 1;
    const Uint128 magnitude = static_cast<Uint128>(v < 0 ? -v : v);
    const Uint128 half = Uint128{1} << (bits - 1);
    const bool folded = magnitude > half / 2;
    const Dyadic reduced = {folded ? half - magnitude : magnitude, bits};
    const double value = sine != folded ? sin_pi(reduced) : cos_pi(reduced);
    const bool negative = (sine && v < 0) != angle.half_turn;
    return negative ? -value : value;
}

// Z at the centre of the known bits, and how far s * Z may be from the computed s * value.
struct ScaledBracket {
    double value;        // s * Z, computed
    double half_width;
};

// The computed half widths below are sums of a few positive products of values good to 2^-48: this covers their own rounding.
inline constexpr double kHalfWidthRounding = 1.0 + 0x1p-40;

// The evaluation error, in units of s * r and e = 2^-53: r carries kMinusLogError / 2 and one rounding of the square root
// (9 e), the cosine kSinCosError (16 e), the two products one each: 27 e. 32 e covers the second-order terms.
inline constexpr double kGaussianError = 0x1p-48;

// The same for s * L: kMinusLogError is 16 e, of which the proof of minus_log uses 10.2; the product rounds once.
inline constexpr double kLaplaceError = kMinusLogError + 0x1p-52;

HUSHVEC_DEVICE inline ScaledBracket scaled_bracket(const GaussianPrefix& known, double s) {
    constexpr double kPi = 0x1.921fb54442d18p+1;
    const double radius = std::sqrt(2.0 * minus_log(centre(known.radius)));
    const double value = s * radius * centre_cosine_or_sine(known.angle, known.sine);
    const double radius_half_width = 1.0 / (to_double(known.radius.prefix) * radius);
    const double angle_half_width = kPi * reciprocal_power_of_two(known.angle.bits + 1);
    const double half_width = s * (radius_half_width + radius * (angle_half_width + kGaussianError));
    return {value, half_width * kHalfWidthRounding};
}

HUSHVEC_DEVICE inline ScaledBracket scaled_bracket(const LaplacePrefix& known, double s) {
    const double magnitude = minus_log(centre(known.magnitude));
    const double value = s * magnitude;
    const double half_width = s * (0.5 / to_double(known.magnitude.prefix) + magnitude * kLaplaceError);
    return {known.negative ? -value : value, half_width * kHalfWidthRounding};
}

// round(X + s * Z) if the bracket of s * Z decides it. x is finite.
//
// X - n is formed first, so that the error does not grow with X: with n near X + s * Z it is about -s * Z, and its one
// rounding is at most e |X - n|. The last sum is below 1/2 where the test accepts and rounds by at most 2^-54; the
// comparison's own bound rounds by at most 2^-54, and an underflowing product loses less than 2^-1000.
//
// bound_factor scales the bound. It is 1; the tests pass less, to see that answers then go wrong.
HUSHVEC_DEVICE inline std::optional<std::int32_t> decide(const ScaledBracket& bracket, double x, double bound_factor = 1.0) {
    constexpr double kDifferenceRounding = 0x1p-52;   // 2 e, of |X - n|
    constexpr double kSumRounding = 0x1p-51;          // absolute: four times the three errors named above
    const double n = std::rint(x + bracket.value);
    const double x_minus_n = x - n;
    const double distance = std::abs(x_minus_n + bracket.value);
    const double bound = bracket.half_width + kDifferenceRounding * std::abs(x_minus_n) + kSumRounding;
    if (!(distance < 0.5 - bound_factor * bound)) return std::nullopt;
    constexpr double kMax = kMaxGridIndex;
    return static_cast<std::int32_t>(std::clamp(n, -kMax, kMax));
}

// The same from the known bits; 0 < s <= 128.
template <class Prefix>
HUSHVEC_DEVICE std::optional<std::int32_t> settle_float64(const Prefix& known, double x, double s, double bound_factor = 1.0) {
    return decide(scaled_bracket(known, s), x, bound_factor);
}

}  // namespace hushvec
