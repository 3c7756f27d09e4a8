// Gamma(shape, 1) in float64 from blocks of the key stream, on the CPU and on a device: the radius of L2-Laplace. No claim on the last places.
#pragma once

#include <cmath>
#include <cstdint>

#include "hushvec/keystream.hpp"
#include "noise/variate.hpp"

namespace hushvec {

inline constexpr unsigned kAttemptBits = 16;   // docs/format.md section 1: block `row * 2^16 + attempt` of domain 17

HUSHVEC_DEVICE inline double centred_uniform(std::uint32_t high, std::uint32_t low) {
    return std::ldexp(static_cast<double>((std::uint64_t{high} << 32) | low) + 0.5, -64);
}

// For shape >= 1. block_at(index) gives a block of domain::kRows. Marsaglia and Tsang (2000): reject from the cube of a shifted normal; over
// 95 % pass at once, so that 2^16 attempts never run out in practice (probability below 2^-280000).
template <class BlockAt>
HUSHVEC_DEVICE double gamma_variate(std::uint64_t row, double shape, const BlockAt& block_at) {
    const double d = shape - 1.0 / 3.0;
    const double c = 1.0 / std::sqrt(9.0 * d);
    for (std::uint64_t attempt = 0; attempt < (std::uint64_t{1} << kAttemptBits); ++attempt) {
        const Block block = block_at((row << kAttemptBits) | attempt);
        const double x = normal_variates(block[0], block[2], block[1], block[3]).cosine;
        const double root = 1.0 + c * x;
        if (root <= 0) continue;
        const double v = root * root * root;
        if (std::log(centred_uniform(block[4], block[5])) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
    }
    return d;
}

}  // namespace hushvec
