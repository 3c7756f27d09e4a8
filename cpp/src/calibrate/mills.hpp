// The Mills ratio of the normal law, M(t) = Q(t)/phi(t) with Q the upper tail and phi the density of N(0, 1),
// and its difference quotient.
//
// In v = 4/(t + 4) the quotient M/v is a polynomial piece (mills_table.hpp). Only +, -, *, / are used, so that no C
// library has to be trusted. Valid range: t >= -1/2 (kMillsLowest), no upper end. Relative error below kMillsError.
#pragma once

#include "calibrate/mills_table.hpp"

namespace hushvec::calibration {

// Bound on the relative error of everything in this file, in units of u = 2^-53.
//
// One M carries at most 9 u: 1.6 u of v, times the slope d ln M/d ln v <= 3.6; 2 u of Horner's rule, whose first
// coefficient dominates; 1 u of the product with v. The quotient of a wide pair subtracts two of them, and
// (M(x) + M(y))/(M(x) - M(y)) <= 5.2 there (x >= -1/2, gap in v above kMillsMaxGap): 47 u. A narrow pair subtracts
// nothing and stays below 12 u.
// Largest seen against 50 digits: 21 u for wide pairs, 8 u for narrow ones.
inline constexpr double kMillsError = 48 * 0x1p-53;

// The variable in which the pieces are written.
inline double mills_variable(double t) { return kMillsShift / (t + kMillsShift); }

// Index of the piece around v, and tau = 32 v - (index + 1/2): the product is exact, the difference nearly so.
inline int mills_piece(double v) { return static_cast<int>(v * kMillsPiecesPerUnit); }
inline double mills_offset(double v, int piece) { return v * kMillsPiecesPerUnit - (static_cast<double>(piece) + 0.5); }

inline double mills_of_variable(double v) {
    const int piece = mills_piece(v);
    const double* c = kMillsCoefficients[piece];
    const double tau = mills_offset(v, piece);
    double r = c[kMillsDegree];
    for (int k = kMillsDegree - 1; k >= 0; --k) r = r * tau + c[k];
    return v * r;
}

inline double mills(double t) { return mills_of_variable(mills_variable(t)); }

// What the privacy profile needs of a pair x < y.
struct MillsPair {
    double quotient;   // (M(x) - M(y)) / (y - x) > 0
    double upper;      // M(y)
};

// The pair x, y = x + 1/inverse_gap.
//
// A narrow pair is read inside one polynomial: (p(x) - p(y))/(x - y) by Horner's rule on the divided difference, a
// sum of positive terms, so that nothing cancels however close x and y are. A wide one is subtracted, which then
// costs little.
inline MillsPair mills_pair(double x, double y, double inverse_gap) {
    const double vx = mills_variable(x);
    const double vy = mills_variable(y);
    const double shrink = vx * vy * (1.0 / kMillsShift);   // (vx - vy)/(y - x)

    if (shrink > kMillsMaxGap * inverse_gap) {
        const double upper = mills_of_variable(vy);
        return {(mills_of_variable(vx) - upper) * inverse_gap, upper};
    }
    const int piece = mills_piece(0.5 * (vx + vy));
    const double* c = kMillsCoefficients[piece];
    const double tau_x = mills_offset(vx, piece);
    const double tau_y = mills_offset(vy, piece);
    double r = c[kMillsDegree];   // R at vy
    double slope = r;             // (R(vx) - R(vy))/(tau_x - tau_y)
    for (int k = kMillsDegree - 1; k > 0; --k) {
        r = r * tau_y + c[k];
        slope = slope * tau_x + r;
    }
    r = r * tau_y + c[0];
    return {shrink * (r + vx * kMillsPiecesPerUnit * slope), vy * r};
}

}  // namespace hushvec::calibration
