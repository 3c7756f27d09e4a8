// The privacy profile of the Gaussian mechanism: delta as a function of epsilon and s = sigma/sensitivity.
//
// With x = epsilon s - 1/(2s) and y = epsilon s + 1/(2s), y^2 - x^2 = 2 epsilon turns e^epsilon phi(y) into phi(x),
// and theorem 8 of Balle and Wang (2018) into
//   delta     = phi(x) (M(x) - M(y))        M the Mills ratio (mills.hpp), y - x = 1/s
//   1 - delta = phi(x) (M(-x) + M(y))
// No e^epsilon, no difference of two tails. The first is used for x >= -1/2, where it keeps delta to full relative
// accuracy; below, delta > 0.38 and the second is a sum of positive terms.
#pragma once

#include "calibrate/mills.hpp"

namespace hushvec::calibration {

inline constexpr double kInverseSqrt2Pi = 0x1.9884533d43651p-2;
inline constexpr double kSqrt2Pi = 0x1.40d931ff62706p+1;
inline constexpr double kLn2 = 0x1.62e42fefa39efp-1;
inline constexpr double kUnit = 0x1p-53;   // half a unit in the last place of 1: what one rounding costs, relatively

// Bound on the relative error of delta, or of 1 - delta below x = -1/2, as computed from exact inputs:
// 48 u of the Mills ratio, 3 u of exp, 5 roundings, leave 8 u of the 64 unused. Largest seen: 22 u.
inline constexpr double kDeltaError = 64 * kUnit;

struct ProfileBracket {
    double value;      // delta = phi(x) value / s, or 1 - delta = phi(x) value
    double upper;      // M(y)
    bool complement;   // which of the two
};

inline ProfileBracket profile_bracket(double x, double y, double s) {
    if (x < kMillsLowest) {
        const double upper = mills(y);
        return {mills(-x) + upper, upper, true};
    }
    const MillsPair pair = mills_pair(x, y, s);
    return {pair.quotient, pair.upper, false};
}

// s = sigma/sensitivity as an unevaluated sum.
struct NoiseRatio {
    double high;
    double low;
};

// The quotient to about 100 bits. A quotient above the range of double becomes its largest number and one below it
// becomes 0: both only raise delta and epsilon.
NoiseRatio noise_ratio(double sigma, double sensitivity);

// A double >= delta(epsilon, s), above it by at most 2.5e-14 relative; in (0, 1]. epsilon >= 0.
double delta_upper(double epsilon, NoiseRatio s);

}  // namespace hushvec::calibration
