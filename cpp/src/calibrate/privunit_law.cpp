// How PrivUnitG splits epsilon between the two parts of its law, and what a given split costs.
//
// With t the threshold, phi the normal density, M the Mills ratio (mills.hpp), Q = phi(t) M(t) = 1 - q:
//
//     epsilon = |logit(p) + ln((1 - Q)/Q)|        E<W, u> = p / M(t) - (1 - p) phi(t) / (1 - Q)
//
// At the best split E<W, u> equals the threshold, which gives one equation with one sign change to solve: with epsilon fixed,
// p falls as t grows, and E<W, u> - t falls from above 0 at t = 0 to below 0 where p = 1/2.
#include <algorithm>
#include <cmath>

#include "calibrate/arguments.hpp"
#include "calibrate/mills.hpp"
#include "calibrate/privacy_profile.hpp"
#include "hushvec/privunit.hpp"

namespace hushvec {
namespace {

using namespace calibration;

constexpr double kLargestThreshold = 128.0;
constexpr double kProbabilityUnit = 0x1p-53;

struct Tail {
    double log;        // ln Q
    double density;    // phi
    double mills;      // M
    double below;      // 1 - Q
};

Tail tail_at(double threshold) {
    const double ratio = mills(threshold);
    const double log_density = -0.5 * threshold * threshold - std::log(kSqrt2Pi);
    const double density = std::exp(log_density);
    return {log_density + std::log(ratio), density, ratio, 1.0 - density * ratio};
}

// ln((1 - Q) / Q)
double tail_logit(const Tail& tail) { return std::log(tail.below) - tail.log; }

double mean_of(double cap_probability, const Tail& tail) {
    return cap_probability / tail.mills - (1.0 - cap_probability) * tail.density / tail.below;
}

double logistic(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// What libm's ln and exp (trusted to 4 units), the Mills ratio (48) and the sums may have lost: units of the largest terms.
double epsilon_margin(double cap_logit, const Tail& tail) {
    constexpr double kUnits = 16.0 * kUnit;
    return kUnits * (8.0 + std::abs(cap_logit) + std::abs(tail.log));
}

// A cap that is less likely than chance, p < Q, tells as much as one that is as much more likely: hence the absolute value.
double upper_epsilon(double cap_probability, const Tail& tail) {
    const double cap_logit = std::log(cap_probability / (1.0 - cap_probability));   // 1 - p is exact
    return std::abs(cap_logit + tail_logit(tail)) + epsilon_margin(cap_logit, tail);
}

double best_threshold(double epsilon) {
    double low = 0.0, high = kLargestThreshold;
    while (true) {
        const double middle = 0.5 * (low + high);
        if (middle <= low || middle >= high) return middle;
        const Tail tail = tail_at(middle);
        const double cap_logit = epsilon - tail_logit(tail);
        const bool below = cap_logit > 0.0 && mean_of(logistic(cap_logit), tail) > middle;
        (below ? low : high) = middle;
    }
}

// The largest p whose epsilon is confirmed.
PrivUnitLaw largest_law(double epsilon, double threshold) {
    const Tail tail = tail_at(threshold);
    double p = std::floor(logistic(epsilon - tail_logit(tail)) / kProbabilityUnit) * kProbabilityUnit;
    p = std::min(p, 1.0 - kProbabilityUnit);
    for (double step = kProbabilityUnit; p > 0.0 && upper_epsilon(p, tail) > epsilon; step *= 2.0) p -= step;
    if (!(p > 0.0)) throw_rule("threshold", kScalar, "must leave a multiple of 2^-53 for the cap's probability at this epsilon", threshold);
    return {p, threshold};
}

void require_epsilon(double epsilon) {
    if (epsilon >= kSmallestPrivUnitEpsilon && epsilon <= kLargestPrivUnitEpsilon) return;
    throw_rule("epsilon", kScalar, "must be in [2^-20, 2^12] for privunit", epsilon);
}

void require_threshold(double threshold) {
    if (threshold >= 0.0 && threshold <= kLargestThreshold) return;
    throw_rule("threshold", kScalar, "must be in [0, 128]", threshold);
}

void require_law(PrivUnitLaw law) {
    const double p = law.cap_probability;
    if (!(p > 0.0 && p < 1.0)) throw_rule("cap_probability", kScalar, "must be > 0 and < 1", p);
    if (std::fmod(p, kProbabilityUnit) != 0.0) throw_rule("cap_probability", kScalar, "must be a multiple of 2^-53", p);
    require_threshold(law.threshold);
}

}  // namespace

PrivUnitLaw privunit_law(double epsilon) {
    require_epsilon(epsilon);
    return largest_law(epsilon, best_threshold(epsilon));
}

PrivUnitLaw privunit_law(double epsilon, double threshold) {
    require_epsilon(epsilon);
    require_threshold(threshold);
    return largest_law(epsilon, threshold);
}

double privunit_epsilon(PrivUnitLaw law) {
    require_law(law);
    return upper_epsilon(law.cap_probability, tail_at(law.threshold));
}

double privunit_mean(PrivUnitLaw law) {
    require_law(law);
    return mean_of(law.cap_probability, tail_at(law.threshold));
}

}  // namespace hushvec
