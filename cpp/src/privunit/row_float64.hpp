// Level 2 of PrivUnitG's rounding: a whole row in float64. On the CPU and on a device.
//
//     T_j = s Z_j + k X_j,     k = s (alpha - D / R) / R,     D = sum of X_j Z_j,     R = |X|
//
// docs/proofs/privunit.md derives the bounds.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "lanes/inline.hpp"

namespace hushvec::float64_row {

// Of a normal from 64 bits of each uniform, in units of the radius: docs/proofs/privunit.md proves half of it.
inline constexpr double kNormalError = 0x1p-47;
// The sums and products of a few float64 numbers below, each term counted generously.
inline constexpr double kArithmeticError = 0x1p-50;

// The squared radii of the groups that a row touches.
struct Radii {
    double smallest, largest;
    double sum;   // over samples: each pair counts twice

    static HUSHVEC_DEVICE Radii none() { return {std::numeric_limits<double>::infinity(), 0, 0}; }
    HUSHVEC_DEVICE void add(double z, double partner) {
        const double square = z * z + partner * partner;
        add(Radii{square, square, 2 * square});
    }
    HUSHVEC_DEVICE void add(const Radii& more) {
        smallest = more.smallest < smallest ? more.smallest : smallest;
        largest = more.largest > largest ? more.largest : largest;
        sum += more.sum;
    }
};

// How far a normal may be from the one of more than 64 bits: |r - r'| <= 1 / (P r), P the first 64 bits of u. Large radii have a
// small P, tiny ones a small r.
HUSHVEC_DEVICE inline double tail_error(const Radii& radii) {
    if (radii.smallest >= 0x1p-26 && radii.largest <= 20.7) return 0x1p-51;   // P > 2^49
    if (radii.smallest >= 0x1p-60 && radii.largest <= 44.3) return 0x1p-34;   // P > 2^32
    return std::numeric_limits<double>::infinity();
}

// k, and what the errors of a row's rounding depend on.
struct Push {
    double value;
    double error;
    double tail_error;   // of every z, for what lies beyond 64 bits of its uniforms
};

// squares: R^2, 0 for a row without direction. product: D, its terms exact to one rounding, added in any order.
HUSHVEC_DEVICE inline Push push_of(double s, std::size_t columns, double squares, double product, const Radii& radii, double alpha,
                                   double alpha_half_width) {
    const double tail = tail_error(radii);
    if (squares == 0) return {0, 0, tail};
    const double norm = std::sqrt(squares);
    const auto count = static_cast<double>(columns);
    // D / R: Cauchy's inequality on the errors of z, and the sum's roundings, at most `count` of each term.
    const double product_error = std::sqrt(radii.sum) * (kNormalError + count * 0x1p-53) + std::sqrt(count) * tail;
    const double value = s * (alpha - product / norm) / norm;
    const double terms = std::abs(alpha) + std::abs(product / norm);
    return {value, s / norm * (alpha_half_width + product_error + kArithmeticError * terms), tail};
}

struct Rounding {
    double n;
    bool decided;
};

// round(T_j) for Z_j = z, the other half of whose pair is `partner`, and X_j = direction.
HUSHVEC_DEVICE inline Rounding round(const Push& push, double s, double z, double partner, double direction) {
    const double noise = s * z, x = push.value * direction;
    const double n = std::rint(noise + x);
    const double distance = std::abs((x - n) + noise);
    const double radius = std::abs(z) + std::abs(partner);   // at least
    const double error = s * (kNormalError * radius + push.tail_error) + push.error * std::abs(direction) +
                         kArithmeticError * (1.0 + std::abs(noise) + std::abs(x));
    return {n, distance < 0.5 - error};
}

}  // namespace hushvec::float64_row
