#include "privunit/component.hpp"

#include <bit>
#include <span>

#include "dispatch/dispatch.hpp"
#include "noise/ladder_brackets.hpp"

namespace hushvec {
namespace {

using multiprecision::WordSpan;

constexpr int kUniformBits = static_cast<int>(kUniformWords) * kLimbBits;

constexpr unsigned kAesAttemptBits = 10;

// The attempts of some rows stand far apart in ChaCha's counter; under AES side by side, so that they share a key.
constexpr std::uint64_t group_of_attempt(Cipher cipher, std::uint64_t attempt, std::uint64_t group) {
    return cipher == Cipher::aes256 ? (group << kAesAttemptBits) | attempt : (attempt << alpha::kRowBits) / kGroupBlocks + group;
}

// More than every attempt before it would be needed with a probability below 2^-1000.
constexpr std::uint64_t last_attempt(Cipher cipher) { return cipher == Cipher::aes256 ? (1u << kAesAttemptBits) - 1 : alpha::kLastAttempt; }

WordSpan first_uniform(const Block& block) { return std::span(block).subspan(alpha::kFirstUniform, kUniformWords); }
WordSpan second_uniform(const Block& block) { return std::span(block).subspan(alpha::kSecondUniform, kUniformWords); }

UnlimitedNumber normal_at_midpoint(const Block& block) {
    return multiprecision::gaussian_bracket<UnlimitedNumber>(first_uniform(block), second_uniform(block), false, 0.0, 1.0).centre;
}

UnlimitedNumber log_at_midpoint(WordSpan words) {
    const std::size_t limbs = words.size() + multiprecision::kGuardLimbs;
    const UnlimitedNumber low_end = UnlimitedNumber::from_fraction(limbs, words[0], words.subspan(1));
    return multiprecision::minus_log(multiprecision::known_uniform(low_end, kUniformBits).centre);
}

// L / rate by a reciprocal: quotients of FixedPoint are fractions, and 1 / rate is one.
UnlimitedNumber tail_at_midpoint(const Block& block, double threshold) {
    const UnlimitedNumber reciprocal = exactly(1.0) / exactly(alpha::proposal_rate(threshold));
    UnlimitedNumber value = log_at_midpoint(first_uniform(block)) * reciprocal;
    value += exactly(threshold);
    return value;
}

bool at_least(const UnlimitedNumber& value, const UnlimitedNumber& bound) {
    UnlimitedNumber difference = value;
    difference -= bound;
    return !difference.negative();
}

// What `judge` leaves undecided, at the midpoint of the 224 bits.
bool is_accepted_at_midpoint(const Component& attempt, double threshold) {
    if (!attempt.in_cap) {
        const UnlimitedNumber centre = normal_at_midpoint(attempt.block);
        return !at_least(centre, UnlimitedNumber::truncated(centre.fraction_limbs(), threshold));
    }
    UnlimitedNumber difference = tail_at_midpoint(attempt.block, threshold);
    difference -= exactly(alpha::proposal_rate(threshold));
    UnlimitedNumber bound = log_at_midpoint(second_uniform(attempt.block));
    bound.shift_left(1);
    return at_least(bound, difference * difference);
}

bool is_accepted(const Component& attempt, double threshold) {
    const alpha::Estimate estimate = {attempt.value, attempt.half_width};
    const alpha::Verdict verdict = alpha::judge(attempt.block, estimate, attempt.in_cap, threshold);
    return verdict == alpha::Verdict::undecided ? is_accepted_at_midpoint(attempt, threshold) : verdict == alpha::Verdict::accepted;
}

}  // namespace

UnlimitedNumber exactly(double value) { return UnlimitedNumber::truncated(kUniformWords + multiprecision::kGuardLimbs, value); }

void draw_components(const KeyStream& stream, PrivUnitLaw law, std::uint64_t group, std::size_t count, Component* components) {
    std::uint32_t pending = (1u << count) - 1;
    for (std::uint64_t attempt = 0; pending != 0 && attempt <= last_attempt(stream.cipher); ++attempt) {
        std::uint32_t words[kGroupSamples];
        active_kernels().keystream(stream, domain::kComponents, group_of_attempt(stream.cipher, attempt, group), 1, words);
        for (std::uint32_t left = pending; left != 0; left &= left - 1) {
            const auto row = static_cast<std::size_t>(std::countr_zero(left));
            Component& component = components[row];
            for (std::size_t word = 0; word < kBlockWords; ++word) component.block[word] = words[word * kGroupBlocks + row];
            if (attempt == 0) component.in_cap = alpha::is_in_cap(component.block, law.cap_probability);
            const alpha::Estimate estimate = alpha::estimate(component.block, component.in_cap, law.threshold);
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
