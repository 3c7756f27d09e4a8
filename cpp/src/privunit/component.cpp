#include "privunit/component.hpp"

#include <bit>
#include <cmath>
#include <span>

#include "dispatch/dispatch.hpp"
#include "noise/ladder_brackets.hpp"
#include "noise/ladder_float64.hpp"

namespace hushvec {
namespace {

using multiprecision::WordSpan;

// Words of a block: 0 and 1 decide on the cap (attempt 0 only), then one uniform and another.
constexpr std::size_t kFirstUniform = 2;
constexpr std::size_t kSecondUniform = kFirstUniform + kUniformWords;

constexpr int kUniformBits = static_cast<int>(kUniformWords) * kLimbBits;

// The index of a row's block is attempt * 2^40 + row.
constexpr unsigned kRowBits = 40;
constexpr unsigned kAesAttemptBits = 10;

// The attempts of some rows stand far apart in ChaCha's counter; under AES side by side, so that they share a key.
constexpr std::uint64_t group_of_attempt(Cipher cipher, std::uint64_t attempt, std::uint64_t group) {
    return cipher == Cipher::aes256 ? (group << kAesAttemptBits) | attempt : (attempt << kRowBits) / kGroupBlocks + group;
}

// More than every attempt before it would be needed with a probability below 2^-1000, under ChaCha 2^-65000.
constexpr std::uint64_t last_attempt(Cipher cipher) { return cipher == Cipher::aes256 ? (1u << kAesAttemptBits) - 1 : 0xffff; }

WordSpan first_uniform(const Block& block) { return std::span(block).subspan(kFirstUniform, kUniformWords); }
WordSpan second_uniform(const Block& block) { return std::span(block).subspan(kSecondUniform, kUniformWords); }

std::uint64_t first_64_bits(WordSpan words) { return std::uint64_t{words[0]} << 32 | words[1]; }

bool is_in_cap(const Block& first, double cap_probability) {
    return static_cast<double>(first_64_bits(first) >> 11) < cap_probability * 0x1p53;   // both sides exact
}

struct Estimate {
    double value;
    double half_width;
};

Estimate normal_estimate(const Block& block) {
    const WordSpan radius = first_uniform(block), angle = second_uniform(block);
    GaussianPrefix known = known_bits(GaussianWord{0, radius[0], angle[0], false});
    known.radius = {known.radius.prefix << 32 | radius[1], known.radius.bits + 32};
    known.angle.prefix = known.angle.prefix * (Int128{1} << 32) + angle[1];
    known.angle.bits += 32;
    const ScaledBracket bracket = scaled_bracket(known, 1.0);
    return {bracket.value, bracket.half_width};
}

// L = -ln u, off by 1/(2P) for the bits beyond 64 and kMinusLogError relative.
Estimate log_estimate(WordSpan words) {
    const UniformPrefix u = {first_64_bits(words), 64};
    const double log = minus_log(centre(u));
    return {log, (0.5 / to_double(u.prefix) + log * kMinusLogError) * kHalfWidthRounding};
}

// (t + sqrt(t^2 + 4)) / 2, Robert's best rate; any rate serves, and these float64 operations are part of the format.
double proposal_rate(double threshold) { return 0.5 * (threshold + std::sqrt(threshold * threshold + 4.0)); }

Estimate tail_estimate(const Block& block, double threshold) {
    constexpr double kRounding = 0x1p-52;   // of the quotient and the sum
    const double rate = proposal_rate(threshold);
    const Estimate log = log_estimate(first_uniform(block));
    const double value = threshold + log.value / rate;
    return {value, log.half_width / rate + kRounding * value};
}

UnlimitedNumber normal_at_midpoint(const Block& block) {
    return multiprecision::gaussian_bracket<UnlimitedNumber>(first_uniform(block), second_uniform(block), false, 0.0, 1.0).centre;
}

UnlimitedNumber log_at_midpoint(WordSpan words) {
    const std::size_t limbs = words.size() + multiprecision::kGuardLimbs;
    const UnlimitedNumber low_end = UnlimitedNumber::from_fraction(limbs, words[0], words.subspan(1));
    return multiprecision::minus_log(multiprecision::known_uniform(low_end, kUniformBits).centre);
}

UnlimitedNumber exactly(double value) { return UnlimitedNumber::truncated(kUniformWords + multiprecision::kGuardLimbs, value); }

// L / rate by a reciprocal: quotients of FixedPoint are fractions, and 1 / rate is one.
UnlimitedNumber tail_at_midpoint(const Block& block, double threshold) {
    const UnlimitedNumber reciprocal = exactly(1.0) / exactly(proposal_rate(threshold));
    UnlimitedNumber value = log_at_midpoint(first_uniform(block)) * reciprocal;
    value += exactly(threshold);
    return value;
}

bool at_least(const UnlimitedNumber& value, const UnlimitedNumber& bound) {
    UnlimitedNumber difference = value;
    difference -= bound;
    return !difference.negative();
}

// normal >= threshold, at the midpoint of the 224 bits where float64 cannot say.
bool is_above(const Block& block, const Estimate& normal, double threshold) {
    if (std::abs(normal.value - threshold) > 2.0 * normal.half_width) return normal.value > threshold;
    const UnlimitedNumber centre = normal_at_midpoint(block);
    return at_least(centre, UnlimitedNumber::truncated(centre.fraction_limbs(), threshold));
}

// (a - rate)^2 <= -2 ln v
bool is_accepted_tail(const Block& block, const Estimate& tail, double threshold) {
    constexpr double kRounding = 0x1p-50;   // of the difference, its square and the comparison
    const double rate = proposal_rate(threshold);
    const Estimate log = log_estimate(second_uniform(block));
    const double difference = tail.value - rate;
    const double square = difference * difference;
    const double error = (2.0 * std::abs(difference) + tail.half_width) * tail.half_width + 2.0 * log.half_width +
                         kRounding * (square + log.value + std::abs(difference) * tail.value);
    if (std::abs(square - 2.0 * log.value) > error) return square < 2.0 * log.value;

    UnlimitedNumber exact_difference = tail_at_midpoint(block, threshold);
    exact_difference -= exactly(rate);
    UnlimitedNumber bound = log_at_midpoint(second_uniform(block));
    bound.shift_left(1);
    return at_least(bound, exact_difference * exact_difference);
}

bool is_accepted(const Component& attempt, double threshold) {
    const Estimate estimate = {attempt.value, attempt.half_width};
    return attempt.in_cap ? is_accepted_tail(attempt.block, estimate, threshold) : !is_above(attempt.block, estimate, threshold);
}

}  // namespace

void draw_components(const KeyStream& stream, PrivUnitLaw law, std::uint64_t group, std::size_t count, Component* components) {
    std::uint32_t pending = (1u << count) - 1;
    for (std::uint64_t attempt = 0; pending != 0 && attempt <= last_attempt(stream.cipher); ++attempt) {
        std::uint32_t words[kGroupSamples];
        active_kernels().keystream(stream, domain::kComponents, group_of_attempt(stream.cipher, attempt, group), 1, words);
        for (std::uint32_t left = pending; left != 0; left &= left - 1) {
            const auto row = static_cast<std::size_t>(std::countr_zero(left));
            Component& component = components[row];
            for (std::size_t word = 0; word < kBlockWords; ++word) component.block[word] = words[word * kGroupBlocks + row];
            if (attempt == 0) component.in_cap = is_in_cap(component.block, law.cap_probability);
            const Estimate estimate = component.in_cap ? tail_estimate(component.block, law.threshold) : normal_estimate(component.block);
            component.value = estimate.value;
            component.half_width = estimate.half_width;
            if (is_accepted(component, law.threshold)) pending &= ~(1u << row);
        }
    }
}

UnlimitedNumber component_at_midpoint(const Component& component, double threshold) {
    return component.in_cap ? tail_at_midpoint(component.block, threshold) : normal_at_midpoint(component.block);
}

}  // namespace hushvec
