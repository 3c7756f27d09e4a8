// The noisy sum of clipped rows where steps share noise: g round(sums unit / g + s_1 Z_1 + ... + s_p Z_p), one rounding of the real number.
//
// No noise is stored: a thread draws the words of all streams for its samples, one stream after the other, with the sum so far in
// registers. The parts of a sum lie behind each other in every stream, so that a list's pair is the streams' too.
#pragma once

#include "device/ladder_body.hpp"
#include "device/sum_body.hpp"
#include "noise/combination_ladder.hpp"
#include "noise/ladder_first_step.hpp"

namespace hushvec::cuda {

// A parameter of kernels, as the keys must not lie in memory that goes back to an allocator.
struct NoiseTerms {
    struct Term {
        KeyStream stream;
        double s;   // the coefficient in grid units, exact
    };
    std::uint32_t count = 0;
    Term list[kMostNoiseTerms] = {};
};

// Half a warp a group, as SumNoiseBody.
struct CombinedNoiseBody {
    SumParts parts;
    std::size_t groups;
    CombinationLevelOne level;
    OpenPairs open;
    double sum_in_grids;   // unit / g
    NoiseTerms terms;

    template <class Team>
    HUSHVEC_INLINE void run(std::size_t block, const Team& team) const {
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            const std::size_t group = block * (kStreamThreads / kGroupBlocks) + thread / kGroupBlocks;
            if (group < groups) release(group, thread % kGroupBlocks);
        });
    }

private:
    static constexpr unsigned kPairs = kBlockWords / 2;

    HUSHVEC_INLINE void release(std::size_t group, unsigned lane) const {
        NormalSum<Thread> noise[kPairs] = {};
        for (std::uint32_t number = 0; number < terms.count; ++number) {
            const auto s = static_cast<float>(terms.list[number].s);
            std::uint32_t words[kBlockWords];
            ChaChaLanes<Thread> cipher(terms.list[number].stream, domain::kMain);
            cipher.blocks(group * kGroupBlocks + lane, words, 1);
            HUSHVEC_UNROLL
            for (unsigned word = 0; word < kPairs; ++word) noise[word] = level.plus(noise[word], s, words[word], words[word + kPairs]);
        }
        const SumPart part = parts.list[parts.of_group(group)];
        const std::size_t first = (group - part.first_group) * kGroupSamples + lane;
        HUSHVEC_UNROLL
        for (unsigned word = 0; word < kPairs; ++word) {
            const std::size_t cosine = first + word * kGroupBlocks, sine = cosine + kHalfGroup;
            const double x_cosine = part.element(cosine, sum_in_grids), x_sine = part.element(sine, sum_in_grids);
            const auto rounding = level.limit.round(noise[word], Float64Elements<Thread>{x_cosine}, Float64Elements<Thread>{x_sine});
            if (rounding.open) [[unlikely]]
                open.add({group * kGroupPairs + word * kGroupBlocks + lane, {}, {x_cosine, x_sine}});
            part.store(cosine, rounding.n.cosine * parts.grid);
            part.store(sine, rounding.n.sine * parts.grid);
        }
    }
};

HUSHVEC_DEVICE inline GaussianWord word_of(const KeyStream& stream, std::uint64_t pair, bool sine) {
    Block words;
    ChaChaLanes<Thread> cipher(stream, domain::kMain);
    cipher.blocks(lane_of_pair(pair), words.data(), 1);
    return word_of_pair(pair, words, sine);
}

// Levels 2 and 3 of what level 1 left open. The words are drawn again.
struct CombinationLadderBody {
    SumParts parts;
    OpenPairs open;
    OpenSamples left;   // what float64 cannot settle
    NoiseTerms terms;

    template <class Team>
    HUSHVEC_INLINE void run(unsigned block, unsigned blocks, const Team& team) const {
        settle_open_pairs(open, block, blocks, team, [this](const OpenPair& pair, bool sine) HUSHVEC_INLINE_LAMBDA { settle(pair, sine); });
    }

private:
    HUSHVEC_DEVICE void settle(const OpenPair& pair, bool sine) const {
        for (int level = 2; level <= 3; ++level) {
            if (const auto n = decide(bracket(pair.pair, sine, level), pair.x[sine])) {
                const SettledPlace at = parts.place(pair.pair);
                return at.out.store(sample_of_pair(at.index, sine), *n);
            }
        }
        left.add({pair.x[sine], pair.pair, 0, 0, sine});
    }

    HUSHVEC_COLD ScaledBracket bracket(std::uint64_t pair, bool sine, int level) const {
        Float64Combination sum;
        for (std::uint32_t number = 0; number < terms.count; ++number) {
            const NoiseTerms::Term& term = terms.list[number];
            const GaussianWord word = word_of(term.stream, pair, sine);
            sum.add(level == 2 ? known_bits(word) : known_bits(word, extension_block(term.stream, pair)), term.s);
        }
        return sum.bracket();
    }
};

// Level 4 of what float64 left open. One thread, as SettleBody.
struct CombinationSettleBody {
    SumParts parts;
    OpenSamples open;
    NoiseTerms terms;

    HUSHVEC_DEVICE void run() const {
        const std::uint32_t listed = open.size();
        if (listed == 0) return;
        multiprecision::FirstStepLimbs::clear_pool();
        for (std::uint32_t i = 0; i < listed; ++i) {
            const std::int32_t n = settled(open.list[i]);   // first: few registers live through a call
            const SettledPlace at = parts.place(open.list[i].index);
            at.out.store(sample_of_pair(at.index, open.list[i].sine != 0), n);
            open.list[i] = {};
        }
    }

private:
    HUSHVEC_COLD std::int32_t settled(const OpenSample& sample) const {
        using namespace multiprecision;
        Combination<FirstStepNumber> sum(kKnownWords + kGuardLimbs);
        for (std::uint32_t number = 0; number < terms.count; ++number) add(sum, terms.list[number], sample);
        const Bracket<FirstStepNumber>& bracket = sum.plus(sample.x);
        const auto n = decide(bracket);
        return n ? *n : nearest(bracket.centre);
    }

    HUSHVEC_COLD static void add(multiprecision::Combination<multiprecision::FirstStepNumber>& sum, const NoiseTerms::Term& term,
                                 const OpenSample& sample) {
        using namespace multiprecision;
        const GaussianWord word = word_of(term.stream, sample.index, sample.sine != 0);
        const Block extension = extension_block(term.stream, sample.index);
        const FirstStepWords radius_words = first_step_words(word.radius_word, extension, 0);
        const FirstStepWords angle_words = first_step_words(word.angle_word, extension, kFirstStepWords);
        sum.add(radius_words, angle_words, word.sine, term.s);
    }
};

}  // namespace hushvec::cuda
