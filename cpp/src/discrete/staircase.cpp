#include "discrete/staircase.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "noise/float64_functions.hpp"

namespace hushvec {
namespace {

// The scale is at least 2^this steps, where a step is more than one integer: few enough for the first-level cache, and for the Laplacian,
// which needs more, for the time it takes to make them.
constexpr int coarse_bits(DiscreteLaw law) { return law == DiscreteLaw::gaussian ? 7 : 6; }

constexpr int kMostCellBits = 13;   // a cell has 800 squares or more at its highest
constexpr int kWeightBits = 24;     // weights are added up in units of 2^-24
constexpr std::uint32_t kTailWords = std::uint32_t{1} << 16;

// What a further draw of a sample reads: docs/format.md section 15. The first attempts at 2^14 samples are in one segment of AES-256.
constexpr std::uint64_t kAttempts = std::uint64_t{1} << 12;
constexpr std::uint64_t kSamplesOfAttempt = std::uint64_t{1} << 14;
constexpr std::uint64_t kBlocksOfAttempt = 4;
constexpr std::size_t kHeightWords[] = {12, 28, 44};

std::uint32_t sum_of_weights(const Decay& decay, std::int64_t k) {
    return decay.floor_of(std::uint32_t{1} << kWeightBits, k) + 1;
}

// What has been drawn of an attempt, block by block.
class AttemptWords {
public:
    AttemptWords(LoneBlocks& attempts, std::uint64_t sample, std::uint64_t attempt)
        : attempts_(attempts), first_(((sample / kSamplesOfAttempt * kAttempts + attempt) * kSamplesOfAttempt + sample % kSamplesOfAttempt) * kBlocksOfAttempt) {}

    std::uint32_t word(std::size_t block, std::size_t i) {
        if (!held_[block]) blocks_[block] = attempts_(first_ + block);
        held_[block] = true;
        return blocks_[block][i];
    }
    std::uint64_t pair(std::size_t block, std::size_t i) { return (std::uint64_t{word(block, i)} << 32) | word(block, i + 1); }

    // The bits of a height, from the first: 12 words of block 0, and the blocks 2 and 3.
    std::uint32_t height(std::size_t i) { return i < 12 ? word(0, 4 + i) : word(2 + (i - 12) / kBlockWords, (i - 12) % kBlockWords); }

private:
    LoneBlocks& attempts_;
    std::uint64_t first_;
    std::array<bool, kBlocksOfAttempt> held_{};
    std::array<Block, kBlocksOfAttempt> blocks_;
};

// Accepted if square + the height within it < C 2^shift w(k).
struct Proposal {
    std::int64_t k;
    std::uint32_t square;
    int shift;
};

enum class Answer {
    accept,
    reject,
    compare,
};

class Attempt {
public:
    Attempt(const Staircase& stairs, AttemptWords& words, bool exactly) : stairs_(stairs), words_(words), exactly_(exactly) {}

    std::int64_t k() const { return at_.k; }

    bool accepts(std::uint32_t word, std::uint32_t low) {
        const Answer answer = propose(word, low);
        return answer == Answer::compare ? (exactly_ ? below_exactly() : below()) : answer == Answer::accept;
    }

private:
    Answer propose(std::uint32_t word, std::uint32_t low) {
        const std::uint32_t steps = stairs_.steps(), place = stairs_.find(word);
        if (place < 2 * steps) {
            const std::uint32_t step = place < steps ? place : place - steps;
            const std::uint32_t cell = word & ((std::uint32_t{1} << stairs_.cell_bits) - 1);
            at_ = {stairs_.first_of(step) + stairs_.integer_of(cell, low), 0, 0};
            if (place < steps) return Answer::accept;
            at_.square = (stairs_.bounds[step + 1] - stairs_.bounds[step] + word - stairs_.bounds[place]) >> stairs_.cell_bits;
            return Answer::compare;
        }
        const std::uint32_t beyond = word - stairs_.bounds[2 * steps];
        if (beyond >= kTailWords) return Answer::reject;
        at_ = tail(beyond);
        return Answer::compare;
    }

    // Half of the words for each side: heights below 2^15, spread by 2^-(stretch + 1) over the stretches of 2^tail_bits integers.
    Proposal tail(std::uint32_t beyond) {
        int stretch = 0;
        for (std::size_t i = 0; i < kBlockWords; ++i) {
            stretch += std::countl_zero(words_.word(1, i));
            if (words_.word(1, i) != 0) break;
        }
        const auto offset = stairs_.tail_bits == 0 ? 0 : static_cast<std::int64_t>(words_.pair(0, 2) >> (64 - stairs_.tail_bits));
        const std::int64_t k = stairs_.end + (std::int64_t{stretch} << stairs_.tail_bits) + offset;
        return {(beyond & 1) != 0 ? -1 - k : k, beyond >> 1, stretch + 1 + stairs_.tail_bits - stairs_.low_bits};
    }

    // square + height < C 2^shift w(k)?
    bool below() {
        const double square = at_.square;
        const RealBracket curve = stairs_.decay.times(std::ldexp(static_cast<double>(stairs_.factor), at_.shift), at_.k);
        if (curve.high <= square) return false;
        if (curve.low >= square + 1.0) return true;
        // The height is good to 2^-53, and the sums, below 2^32, round by 2^-22 each.
        constexpr double kRounding = 0x1p-20;
        const double height = square + static_cast<double>(words_.pair(0, 4)) * 0x1p-64;
        if (height + kRounding < curve.low) return true;
        if (height - kRounding > curve.high) return false;
        return below_exactly();
    }

    bool below_exactly() {
        for (const std::size_t count : kHeightWords) {
            std::vector<std::uint32_t> height(count);
            for (std::size_t i = 0; i < count; ++i) height[i] = words_.height(i);
            const int bits = static_cast<int>(count) * kLimbBits;
            const FixedBracket curve = stairs_.decay.times(stairs_.factor, at_.shift, at_.k, bits);
            const std::size_t limbs = curve.value.fraction_limbs();
            const UnlimitedNumber low_end = UnlimitedNumber::from_fraction(limbs, height[0], std::span(height).subspan(1));

            UnlimitedNumber low = UnlimitedNumber(limbs, at_.square);
            low += low_end;
            UnlimitedNumber high = low;
            high.add_upper_power_of_two(-bits);
            high.add_upper_power_of_two(curve.error_exponent);
            if (!smaller_magnitude(curve.value, high)) return true;
            UnlimitedNumber top = curve.value;
            top.add_upper_power_of_two(curve.error_exponent);
            if (!smaller_magnitude(low, top)) return false;
        }
        return false;   // the bits ran out
    }

    const Staircase& stairs_;
    AttemptWords& words_;
    bool exactly_;
    Proposal at_{0, 0, 0};
};

}  // namespace

// The area: factor * cells * (sum of the highest weights of the steps) + one more square for each cell <= 2^32 - 2^16, so that all words fit.
Staircase::Staircase(DiscreteLaw law, double scale) : decay(law, scale) {
    int exponent = 0;
    std::frexp(scale, &exponent);   // the scale is in [2^(exponent - 1), 2^exponent)
    step_bits = std::max(0, exponent - 1 - coarse_bits(law));
    cell_bits = std::min(step_bits, kMostCellBits);
    low_bits = step_bits - cell_bits;
    tail_bits = std::max(0, std::ldexp(1.0, exponent - 1) == scale ? exponent - 1 : exponent);
    const std::int64_t half = static_cast<std::int64_t>((law == DiscreteLaw::gaussian ? 5.0 : 13.0) * std::ldexp(scale, -step_bits)) + 2;
    end = half << step_bits;

    const auto count = static_cast<std::uint32_t>(2 * half);
    bounds.resize(2 * std::size_t{count} + 1);
    std::vector<std::int64_t> near(count), far(count);
    std::uint64_t weights = 0;
    for (std::uint32_t step = 0; step < count; ++step) {
        near[step] = first_of(step);
        far[step] = near[step] + (std::int64_t{1} << step_bits) - 1;
        if (near[step] < 0) std::swap(near[step], far[step]);
        weights += sum_of_weights(decay, near[step]);
    }
    const std::uint64_t room = (std::uint64_t{1} << 32) - kTailWords - (std::uint64_t{count} << cell_bits);
    factor = static_cast<std::uint32_t>((room << kWeightBits) / (weights << cell_bits));

    for (std::uint32_t step = 0; step < count; ++step) {
        bounds[step + 1] = bounds[step] + (decay.floor_of(factor, far[step]) << cell_bits);
    }
    for (std::uint32_t step = 0; step < count; ++step) {
        const std::uint32_t highest = (decay.floor_of(factor, near[step]) + 1) << cell_bits;
        bounds[count + step + 1] = bounds[count + step] + (highest - (bounds[step + 1] - bounds[step]));
    }
    make_guides();
}

void Staircase::make_guides() {
    const std::uint32_t count = steps();
    first_open_ = WordGuide::kOpen;   // words of the rest are open
    std::uint32_t step = 0;
    for (std::uint32_t top = 0; top < (std::uint32_t{1} << kGuideBits); ++top) {
        const std::uint32_t first = top << kWithinBits, last = first + kWithin;
        while (step < count && bounds[step + 1] <= first) ++step;
        const bool two_at_most = step < count && (bounds[step + 1] > last || (step + 1 < count && bounds[step + 2] > last));
        const bool is_open = !two_at_most || step >= WordGuide::kOpen >> kWithinBits;
        guide.entry[top] = is_open ? WordGuide::kOpen : step << kWithinBits | std::min(bounds[step + 1] - 1 - first, kWithin);
        if (is_open) first_open_ = std::min(first_open_, first);
    }

    constexpr int kOpenGuideBits = 12;
    open_shift_ = std::max(0, static_cast<int>(std::bit_width((~std::uint32_t{0} - first_open_))) - kOpenGuideBits);
    std::uint16_t place = 0;
    for (std::uint64_t word = first_open_; word >> 32 == 0; word += std::uint64_t{1} << open_shift_) {
        while (place + 1U < bounds.size() && bounds[place + 1U] <= word) ++place;
        open_guide_.push_back(place);
    }
}

std::uint32_t Staircase::find(std::uint32_t word) const {
    const std::uint32_t entry = guide.entry[word >> kWithinBits];
    if (entry < WordGuide::kOpen) return (entry >> kWithinBits) + static_cast<std::uint32_t>((word & kWithin) > (entry & kWithin));
    std::uint32_t place = open_guide_[(word - first_open_) >> open_shift_];
    while (place + 1 < bounds.size() && bounds[place + 1] <= word) ++place;
    return place;
}

std::int64_t settle_discrete(LoneBlocks& attempts, const Staircase& stairs, std::uint64_t sample, std::uint32_t word, std::uint32_t low,
                             bool exactly) {
    for (std::uint64_t number = 0;; ++number) {
        AttemptWords words(attempts, sample, number);
        Attempt attempt(stairs, words, exactly);
        if (attempt.accepts(word, low) || number + 1 == kAttempts) return attempt.k();
        word = words.word(0, 0);
        low = words.word(0, 1);
    }
}

}  // namespace hushvec
