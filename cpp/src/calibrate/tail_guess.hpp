// Rough inverses of normal tails: where the solvers start. Nothing here reaches an answer, only the number of steps
// to it.
#pragma once

#include <algorithm>
#include <cmath>

namespace hushvec::calibration {

// t with Q(t) = p, within 3e-3 (Abramowitz and Stegun 26.2.22); p in (0, 1).
inline double guess_upper_quantile(double p) {
    const double t = std::sqrt(-2.0 * std::log(std::min(p, 1.0 - p)));
    const double quantile = t - (2.30753 + 0.27061 * t) / (1.0 + t * (0.99229 + 0.04481 * t));
    return p <= 0.5 ? quantile : -quantile;
}

// M(t), within 5 %; exact at t = 0 and in the limit.
inline double guess_mills(double t) {
    constexpr double kEightOverPi = 2.5464790894703255;
    return 2.0 / (t + std::sqrt(t * t + kEightOverPi));
}

// x with phi(x) (M(-x) + M(y)) = gamma <= 1/2, where y(x) is the upper end that belongs to x: one substitution.
template <class UpperEnd>
double guess_from_complement(double gamma, UpperEnd upper_end) {
    constexpr double kTypicalShare = 0.7;   // Q(-x)/gamma lies in [1/2, 1]
    const double first = -guess_upper_quantile(kTypicalShare * gamma);
    const double ratio = guess_mills(upper_end(first)) / guess_mills(-first);
    return -guess_upper_quantile(gamma / (1.0 + ratio));
}

// x with phi(x) (M(x) - M(y)) = delta <= 1/2, for y not close to x: one substitution.
template <class UpperEnd>
double guess_from_tail(double delta, UpperEnd upper_end) {
    constexpr double kLargestTail = 0.9;
    const double first = guess_upper_quantile(delta);
    const double share = 1.0 - guess_mills(upper_end(first)) / guess_mills(first);
    return guess_upper_quantile(delta < kLargestTail * share ? delta / share : kLargestTail);
}

// m with phi(m)/m - Q(m) = e^log_ratio, within 0.6 %: a least-squares fit in T = sqrt(2 ln(1 + e^-log_ratio)),
// which has the right limits m ~ T^2/5 at 0 and m ~ T at infinity.
inline double guess_midpoint(double log_ratio) {
    constexpr double kExpOverflow = 700.0;
    const double log_inverse = log_ratio < -kExpOverflow ? -log_ratio : std::log1p(std::exp(-log_ratio));
    const double t = std::sqrt(2.0 * log_inverse);
    return t * t * (0.19983222 + t * (0.0318714 + t * 0.0188117)) /
           (1.0 + t * (0.19280131 + t * (0.0449157 + t * 0.01860219)));
}

}  // namespace hushvec::calibration
