// PrivUnitG: the direction of a vector, released with pure epsilon-DP (Asi, Feldman, Talwar 2022, "Optimal algorithms for mean
// estimation under local differential privacy").
//
// For a direction u in d dimensions the ideal row is
//
//     W = Z + (alpha - <Z, u>) u,     Z ~ N(0, I_d)
//     alpha ~ N(0, 1) conditioned on alpha >= threshold with probability p, on alpha < threshold otherwise
//
// that is, a standard Gaussian row conditioned on the half space <W, u> >= threshold with probability p, on the other otherwise.
// With q = Phi(threshold) its density is the Gaussian one times p/(1 - q) or (1 - p)/q, so that for any two directions
//
//     epsilon = |ln(p/(1 - p)) + ln(q/(1 - q))|,   E<W, u> = p phi/(1 - q) - (1 - p) phi/q,     phi at the threshold
#pragma once

#include "hushvec/array.hpp"
#include "hushvec/clip.hpp"
#include "hushvec/keystream.hpp"

namespace hushvec {

struct PrivUnitLaw {
    double cap_probability;   // p, a multiple of 2^-53
    double threshold;         // in units of the Gaussian row: gamma sqrt(d) of the paper
};

inline constexpr double kSmallestPrivUnitEpsilon = 0x1p-20;
inline constexpr double kLargestPrivUnitEpsilon = 0x1p12;

// The law that makes E<W, u> largest among those of at most this epsilon, which privunit_epsilon confirms.
// Throws std::invalid_argument outside [2^-20, 2^12].
PrivUnitLaw privunit_law(double epsilon);

// The law of at most this epsilon with a threshold given, in [0, 128]. Throws where no multiple of 2^-53 is so near to 1 - q.
PrivUnitLaw privunit_law(double epsilon, double threshold);

// epsilon of a law, rounded up: above the exact value by at most 1e-12 (1 + epsilon). A p below 1 - q costs as one above it.
// Throws std::invalid_argument unless 0 < p < 1 is a multiple of 2^-53 and 0 <= threshold <= 128.
double privunit_epsilon(PrivUnitLaw law);

// E<W, u>, to about 1e-14 relative. Same conditions.
double privunit_mean(PrivUnitLaw law);

// The grid of a release: sigma rounded up to float32, and s = sigma / grid in [8, 16). Throws outside [2^-100, 2^100].
ExactGrid privunit_grid(double sigma);

// The grid of an int8 release (docs/format.md section 14): privunit_grid's, or coarser where threshold * sigma / grid could be above 64.
// Throws std::invalid_argument for a threshold above 32, where s would be below 1, and as privunit_grid.
ExactGrid privunit_int8_grid(double sigma, double threshold);

// out = grid * round(W sigma / grid) for the direction of every row of x, exactly rounded: docs/format.md section 8.
// A row of norm below 2^-100 has no direction and becomes pure noise. An int8 `out` gets the integers on privunit_int8_grid, saturated at
// +-127. Same conditions and exceptions as clip.
void privunit(const KeyStream& stream, const MatrixView& x, PrivUnitLaw law, double sigma, const MatrixView& out,
              Output output = Output::in_use);

}  // namespace hushvec
