// alpha in float64: an attempt's value, and whether it is accepted, where 64 bits of each uniform tell. On the CPU and on a device.
//
// component.hpp has the law; what stays undecided here is decided by all 224 bits.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "hushvec/keystream.hpp"
#include "lanes/inline.hpp"
#include "noise/ladder_float64.hpp"

namespace hushvec {

inline constexpr std::size_t kUniformWords = 7;   // of each uniform of docs/format.md section 8: 224 bits

namespace alpha {

// Words of a block: 0 and 1 decide on the cap (attempt 0 only), then one uniform and another.
inline constexpr std::size_t kFirstUniform = 2;
inline constexpr std::size_t kSecondUniform = kFirstUniform + kUniformWords;

// The index of a row's block is attempt * 2^40 + row.
inline constexpr unsigned kRowBits = 40;
// Under ChaCha. More than every attempt before it would be needed with a probability below 2^-65000.
inline constexpr std::uint64_t kLastAttempt = 0xffff;

struct Estimate {
    double value;
    double half_width;
};

enum class Verdict {
    rejected,
    accepted,
    undecided,
};

HUSHVEC_DEVICE constexpr Verdict verdict(bool accepted) { return accepted ? Verdict::accepted : Verdict::rejected; }

HUSHVEC_DEVICE constexpr std::uint64_t first_64_bits(const Block& block, std::size_t first) {
    return std::uint64_t{block[first]} << 32 | block[first + 1];
}

HUSHVEC_DEVICE inline bool is_in_cap(const Block& first, double cap_probability) {
    return static_cast<double>(first_64_bits(first, 0) >> 11) < cap_probability * 0x1p53;   // both sides exact
}

HUSHVEC_DEVICE inline Estimate normal_estimate(const Block& block) {
    GaussianPrefix known = known_bits(GaussianWord{0, block[kFirstUniform], block[kSecondUniform], false});
    known.radius = {known.radius.prefix << 32 | block[kFirstUniform + 1], known.radius.bits + 32};
    known.angle.prefix = known.angle.prefix * (Int128{1} << 32) + block[kSecondUniform + 1];
    known.angle.bits += 32;
    const ScaledBracket bracket = scaled_bracket(known, 1.0);
    return {bracket.value, bracket.half_width};
}

// L = -ln u, off by 1/(2P) for the bits beyond 64 and kMinusLogError relative.
HUSHVEC_DEVICE inline Estimate log_estimate(const Block& block, std::size_t first) {
    const UniformPrefix u = {first_64_bits(block, first), 64};
    const double log = minus_log(centre(u));
    return {log, (0.5 / to_double(u.prefix) + log * kMinusLogError) * kHalfWidthRounding};
}

// (t + sqrt(t^2 + 4)) / 2, Robert's best rate; any rate serves, and these float64 operations are part of the format.
HUSHVEC_DEVICE inline double proposal_rate(double threshold) { return 0.5 * (threshold + std::sqrt(threshold * threshold + 4.0)); }

HUSHVEC_DEVICE inline Estimate tail_estimate(const Block& block, double threshold) {
    constexpr double kRounding = 0x1p-52;   // of the quotient and the sum
    const double rate = proposal_rate(threshold);
    const Estimate log = log_estimate(block, kFirstUniform);
    const double value = threshold + log.value / rate;
    return {value, log.half_width / rate + kRounding * value};
}

HUSHVEC_DEVICE inline Estimate estimate(const Block& block, bool in_cap, double threshold) {
    return in_cap ? tail_estimate(block, threshold) : normal_estimate(block);
}

// normal < threshold
HUSHVEC_DEVICE inline Verdict judge_normal(const Estimate& normal, double threshold) {
    const bool decided = std::abs(normal.value - threshold) > 2.0 * normal.half_width;
    return decided ? verdict(normal.value < threshold) : Verdict::undecided;
}

// (a - rate)^2 <= -2 ln v
HUSHVEC_DEVICE inline Verdict judge_tail(const Block& block, const Estimate& tail, double threshold) {
    constexpr double kRounding = 0x1p-50;   // of the difference, its square and the comparison
    const double rate = proposal_rate(threshold);
    const Estimate log = log_estimate(block, kSecondUniform);
    const double difference = tail.value - rate;
    const double square = difference * difference;
    const double error = (2.0 * std::abs(difference) + tail.half_width) * tail.half_width + 2.0 * log.half_width +
                         kRounding * (square + log.value + std::abs(difference) * tail.value);
    const bool decided = std::abs(square - 2.0 * log.value) > error;
    return decided ? verdict(square < 2.0 * log.value) : Verdict::undecided;
}

HUSHVEC_DEVICE inline Verdict judge(const Block& block, const Estimate& attempt, bool in_cap, double threshold) {
    return in_cap ? judge_tail(block, attempt, threshold) : judge_normal(attempt, threshold);
}

}  // namespace alpha
}  // namespace hushvec
