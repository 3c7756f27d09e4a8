// The integer law of randomized response: other = ceil(2^64 / (e^epsilon + labels - 1)), exactly.
//
// With x = e^-epsilon and q(x) = x / (1 + (labels - 1) x) it is ceil(2^64 q(x)). x is bracketed in fixed point, and as q increases,
// so is q(x); bits are added until both ends have one floor. e^epsilon is transcendental (Lindemann: epsilon is rational
// and not 0), so 2^64 q(x) is no integer and its ceiling is that floor plus 1.
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "hushvec/discrete.hpp"
#include "noise/exp_fixed_point.hpp"
#include "noise/float64_functions.hpp"

namespace hushvec {
namespace {

using Number = FixedPoint<std::vector<std::uint32_t>>;

// e^45 > 2^64: from here on other = 1.
constexpr double kNoLargerEpsilonMatters = 45.0;

constexpr int kHalvings = 6;                     // e^-epsilon = (e^-r)^64 with r = epsilon / 64 < 0.71
constexpr std::size_t kFirstFractionLimbs = 6;   // F = 192 bits behind the point
constexpr std::size_t kLastFractionLimbs = 96;   // F = 3072: holds the smallest double exactly, with room

// e^-epsilon for 0 < epsilon < 45: r = epsilon / 64 < 0.71 to 2 ulps, one from the conversion, one from the division.
Number exp_of_minus(double epsilon, std::size_t fraction_limbs) {
    Number r = Number::truncated(fraction_limbs, epsilon);
    r /= 1U << kHalvings;
    return exp_of_minus(r, kHalvings);
}

// floor(2^64 q(x)), q(x) less than one ulp too small by the division. q < 1/2, so 2^64 q fits.
std::uint64_t scaled_quotient(const Number& x, std::uint64_t labels, bool add_one_ulp) {
    Number denominator(x.fraction_limbs(), static_cast<std::uint32_t>(labels - 1));
    denominator = denominator * x;
    denominator += Number(x.fraction_limbs(), 1);
    Number quotient = x / denominator;
    if (add_one_ulp) quotient.add_upper_power_of_two(-x.fraction_bits());
    quotient.shift_left(64);
    return quotient.integer_part();
}

// More bits until both ends agree. Should the last ones not decide, the upper end errs towards less truth.
std::uint64_t share_of_another_label(double epsilon, std::uint64_t labels) {
    if (epsilon >= kNoLargerEpsilonMatters) return 1;
    for (std::size_t limbs = kFirstFractionLimbs;; limbs *= 2) {
        Number low = exp_of_minus(epsilon, limbs);
        Number high = low;
        const Number error = Number::upper_power_of_two(limbs, kExpErrorBits + kHalvings - low.fraction_bits());
        low -= error;
        high += error;
        const std::uint64_t floor_of_high = scaled_quotient(high, labels, true);
        if (floor_of_high == scaled_quotient(low, labels, false) || limbs == kLastFractionLimbs) return floor_of_high + 1;
    }
}

std::string printed(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", value);
    return text;
}

}  // namespace

ResponseLaw response_law(double epsilon, std::uint64_t labels) {
    if (!(epsilon > 0) || !std::isfinite(epsilon)) throw std::invalid_argument("epsilon must be > 0 and finite, got " + printed(epsilon));
    if (labels < 2 || labels > kMostLabels) {
        throw std::invalid_argument("labels must be in [2, 2^24], got " + std::to_string(labels));
    }
    const std::uint64_t other = share_of_another_label(epsilon, labels);
    if (Uint128{other} * labels > Uint128{1} << 64) {   // truth < other: the reversed ratio might exceed e^epsilon
        throw std::invalid_argument("epsilon must be larger for " + std::to_string(labels) +
                                    " labels, as 64 random bits cannot prefer the truth by so little, got " + printed(epsilon));
    }
    return {labels, 0 - (labels - 1) * other, other};
}

}  // namespace hushvec
