#include "discrete/decay.hpp"

#include <array>
#include <cmath>

#include "noise/exp_fixed_point.hpp"
#include "noise/float64_functions.hpp"

namespace hushvec {
namespace {

// From here on w(k) < 2^-1000.
constexpr double kLargestExponent = 700.0;
constexpr double kBelowAll = 0x1p-1000;

// e^-x for 0 <= x <= 700; relative error at most 8 e, e = 2^-53, for the double x as it is.
//
//   x = q ln 2 + f, |f| <= 0.3467      e^-x = 2^-q e^-f
//   q H, H the first 42 bits of ln 2, is exact (q < 2^10), and so is x - q H: q = 0, or both are within a factor of 2 (Sterbenz).
//   f      q L rounds by less than 2^-85, and the difference by 2^-55: 0.5 e.
//   e^-f   cut after f^14/14!: 2^-62. Even and odd powers apart, each by Horner's rule in f^2, f^i has at most 1.5 i + 3 roundings:
//          an error of the sum of (1.5 i + 3) |f|^i / i! e = (3 + 1.5 |f|) e^|f| e < 5 e, of a value of at least 0.707: 7.1 e.
double exp_of_minus_float64(double x) {
    constexpr double kLn2High = 0x1.62e42fefa38p-1, kLn2Low = 0x1.ef35793c7673p-45;
    constexpr double kPerLn2 = 0x1.71547652b82fep+0;
    constexpr std::array<double, 8> kEven = {1.0, 1.0 / 2, 1.0 / 24, 1.0 / 720, 1.0 / 40320, 1.0 / 3628800.0,
                                             1.0 / 479001600.0, 1.0 / 87178291200.0};
    constexpr std::array<double, 7> kOdd = {1.0,
                                            1.0 / 6,
                                            1.0 / 120,
                                            1.0 / 5040,
                                            1.0 / 362880,
                                            1.0 / 39916800.0,
                                            1.0 / 6227020800.0};
    const auto q = static_cast<double>(static_cast<int>(x * kPerLn2 + 0.5));
    const double f = (x - q * kLn2High) - q * kLn2Low;
    return (polynomial(kEven, f * f) - f * polynomial(kOdd, f * f)) * reciprocal_power_of_two(static_cast<int>(q));
}

}  // namespace

// Off by at most 3 e of itself: one rounding of the quotient, twice in the square, one of the product. Halving is exact.
double Decay::exponent(std::int64_t k) const {
    const double x = std::abs(static_cast<double>(k)) / scale_;
    return law_ == DiscreteLaw::gaussian ? 0.5 * (x * x) : x;
}

// An error of 3 e x in the exponent x is one of 3 e x, relative, in its exponential (second-order terms are below 2^-80); with the
// exponential's 8 e and a rounding each of the product, of both ends and of what is left of the bound it is below (3 x + 13) e.
RealBracket Decay::times(double factor, std::int64_t k) const {
    const double x = exponent(k);
    if (!(x <= kLargestExponent)) return {0.0, factor * kBelowAll};
    const double value = factor * exp_of_minus_float64(x);
    const double bound = (4.0 * x + 16.0) * 0x1p-53;
    return {value * (1.0 - bound), value * (1.0 + bound)};
}

// |k| and the scale are halved p times, p the scale's exponent: the scale is then in [1/2, 1) and |k| below 2^15, both exactly, with at
// most 53 bits behind the point; so their squares are exact too in F >= 192 bits. Their quotient r is halved until it is below 1/2, at
// most 31 times, and truncates by one ulp.
//
// Error: exp_of_minus has 2^(17 + 31) ulps; times the factor, and one more for the product, below 2^(17 + 31 + 33); and 2^shift times that.
FixedBracket Decay::times(std::uint32_t factor, int shift, std::int64_t k, int bits) const {
    constexpr int kGuardBits = 128;
    const auto limbs = static_cast<std::size_t>((bits + shift + kGuardBits + kLimbBits - 1) / kLimbBits);
    int exponent_of_scale = 0;
    UnlimitedNumber divisor = UnlimitedNumber::truncated(limbs, std::frexp(scale_, &exponent_of_scale));
    UnlimitedNumber r = UnlimitedNumber::truncated(limbs, std::ldexp(std::abs(static_cast<double>(k)), -exponent_of_scale));
    if (law_ == DiscreteLaw::gaussian) {
        r = r * r;
        divisor = divisor * divisor;
        divisor.shift_left(1);
    }
    UnlimitedNumber twice = r;
    twice.shift_left(1);
    int halvings = 0;
    for (; !smaller_magnitude(twice, divisor); ++halvings) divisor.shift_left(1);
    UnlimitedNumber value = UnlimitedNumber(limbs, factor) * exp_of_minus(r / divisor, halvings);
    value.shift_left(shift);
    return {value, kExpErrorBits + halvings + 33 + shift - value.fraction_bits()};
}

// e^-x is transcendental for a rational x other than 0 (Lindemann): factor w(k) is no whole number, and enough bits decide.
std::uint32_t Decay::floor_of(std::uint32_t factor, std::int64_t k) const {
    if (k == 0) return factor;
    const RealBracket bracket = times(static_cast<double>(factor), k);
    const auto floor = static_cast<std::uint32_t>(bracket.low);
    if (floor == static_cast<std::uint32_t>(bracket.high)) return floor;
    for (int bits = 64;; bits *= 2) {
        const FixedBracket fixed = times(factor, 0, k, bits);
        UnlimitedNumber high = fixed.value;
        high.add_upper_power_of_two(fixed.error_exponent);
        UnlimitedNumber low = fixed.value;
        low -= UnlimitedNumber::upper_power_of_two(low.fraction_limbs(), fixed.error_exponent);
        if (!low.negative() && low.integer_part() == high.integer_part()) return static_cast<std::uint32_t>(low.integer_part());
    }
}

}  // namespace hushvec
