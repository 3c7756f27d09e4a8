"""Write mills_table.hpp: polynomial pieces of the Mills ratio of the normal law, with their measured error.

The Mills ratio is M(t) = Q(t)/phi(t), Q the upper tail and phi the density of N(0, 1). In the variable
v = c/(t + c), which maps [0, inf) onto (0, 1], the quotient R = M/v is smooth up to v = 0, so that pieces of equal
width in v cover every t with the same relative error.

Each piece is valid a little beyond its own ends: it has to serve for both ends of a pair whose midpoint lies in
the piece, because a difference M(x) - M(y) is taken inside one polynomial (mills.hpp says why).

Run:  python make_mills_table.py > mills_table.hpp        (needs mpmath)
"""

from mpmath import mp, mpf

mp.dps = 50

SHIFT = 4                       # c
PIECES_PER_UNIT = 32            # in v
MAX_GAP = mpf(1) / 8           # in v, of a pair that shares a piece
DEGREE = 12
LOWEST_T = mpf(-1) / 2
CHECKS_PER_PIECE = 200

HIGHEST_V = SHIFT / (LOWEST_T + SHIFT)
PIECES = int(mp.ceil(HIGHEST_V * PIECES_PER_UNIT))
HALF_REACH = (mpf(1) / PIECES_PER_UNIT + MAX_GAP) / 2


def mills(t):
    if t < 200:
        return mp.sqrt(mp.pi / 2) * mp.exp(t * t / 2) * mp.erfc(t / mp.sqrt(2))
    total, term = mpf(0), 1 / t   # asymptotic series: 25 terms leave less than 1e-60 at t = 200
    for k in range(25):
        total += term
        term *= -(2 * k + 1) / t**2
    return total


def quotient(v):
    """R(v) = M(t)/v."""
    return mills(SHIFT / v - SHIFT) / v if v > 0 else mpf(1) / SHIFT


def quotient_slope(v):
    """dR/dv, from M' = t M - 1."""
    t = SHIFT / v - SHIFT
    return ((1 - t * mills(t)) * SHIFT / v**2 - quotient(v)) / v


def power_coefficients(centre, low, high):
    """Chebyshev interpolation of R on [low, high], as powers of tau = (v - centre) * PIECES_PER_UNIT."""
    n = DEGREE + 1
    angles = [mp.pi * (2 * j + 1) / (2 * n) for j in range(n)]
    middle, half = (low + high) / 2, (high - low) / 2
    values = [quotient(middle + half * mp.cos(a)) for a in angles]
    chebyshev = [2 * sum(f * mp.cos(k * a) for f, a in zip(values, angles)) / n for k in range(n)]
    chebyshev[0] /= 2

    # T_k as polynomials of tau: (v - middle)/half = slope * tau + offset
    slope, offset = 1 / (PIECES_PER_UNIT * half), (centre - middle) / half
    previous, current = [mpf(1)], [offset, slope]
    total = [chebyshev[0]] + [mpf(0)] * DEGREE
    for k in range(1, n):
        for i, c in enumerate(current):
            total[i] += chebyshev[k] * c
        following = [mpf(0)] * (len(current) + 1)
        for i, c in enumerate(current):
            following[i] += 2 * offset * c
            following[i + 1] += 2 * slope * c
        for i, c in enumerate(previous):
            following[i] -= c
        previous, current = current, following
    return total


def polynomial(coefficients, x):
    total = mpf(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def main():
    rows, value_error, slope_error = [], mpf(0), mpf(0)
    for piece in range(PIECES):
        centre = (piece + mpf(1) / 2) / PIECES_PER_UNIT
        low, high = max(mpf(0), centre - HALF_REACH), centre + HALF_REACH
        doubles = [mpf(float(c)) for c in power_coefficients(centre, low, high)]
        slope = [k * c * PIECES_PER_UNIT for k, c in enumerate(doubles)][1:]
        for i in range(1, CHECKS_PER_PIECE + 1):
            v = low + (high - low) * i / CHECKS_PER_PIECE
            tau = (v - centre) * PIECES_PER_UNIT
            r, dr = quotient(v), quotient_slope(v)
            value_error = max(value_error, abs(polynomial(doubles, tau) / r - 1))
            slope_error = max(slope_error, abs((polynomial(slope, tau) - dr) * v / (r + v * dr)))
        rows.append(doubles)

    print(f"""\
// Written by make_mills_table.py; change that script, not this file.
//
// Piece i holds R(v) = M(t)/v, v = {SHIFT}/(t + {SHIFT}), as powers of tau = {PIECES_PER_UNIT} v - (i + 1/2),
// for |tau| <= {mp.nstr(HALF_REACH * PIECES_PER_UNIT, 3)} and v >= 0. Largest error of the polynomials with these
// coefficients, evaluated without rounding, at {CHECKS_PER_PIECE} points per piece:
//   R: {mp.nstr(value_error, 2)} relative;  v dR/dv: {mp.nstr(slope_error, 2)} of dM/dv.
#pragma once

namespace hushvec::calibration {{

inline constexpr double kMillsShift = {SHIFT}.0;
inline constexpr double kMillsPiecesPerUnit = {PIECES_PER_UNIT}.0;
inline constexpr double kMillsMaxGap = {float(MAX_GAP)};     // in v, of a pair that shares a piece
inline constexpr double kMillsLowest = {float(LOWEST_T)};        // smallest t the pieces cover
inline constexpr int kMillsPieces = {PIECES};
inline constexpr int kMillsDegree = {DEGREE};

inline constexpr double kMillsCoefficients[kMillsPieces][kMillsDegree + 1] = {{""")
    for doubles in rows:
        print("    {" + ", ".join(float(c).hex() for c in doubles) + "},")
    print("};\n\n}  // namespace hushvec::calibration")


if __name__ == "__main__":
    main()
