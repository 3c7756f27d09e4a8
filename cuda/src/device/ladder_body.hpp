// After a kernel: the pairs that level 1 left open, in float64, from the first words and then from 64 bits more. A thread a sample. The list
// is zeros afterwards: whoever gets its memory next could take the noise off the samples.
#pragma once

#include "device/open_samples.hpp"
#include "device/settled_output.hpp"
#include "device/team.hpp"
#include "noise/ladder_float64.hpp"

namespace hushvec::cuda {

inline constexpr unsigned kLadderThreads = 128;

// settle(pair, which of its samples) for all pairs of a list, which then is zeros.
template <class Team, class Settle>
HUSHVEC_INLINE void settle_open_pairs(const OpenPairs& open, unsigned block, unsigned blocks, const Team& team, const Settle& settle) {
    const std::uint32_t samples = 2 * open.size();
    team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
        for (std::uint32_t i = block * kLadderThreads + thread; i < samples; i += blocks * kLadderThreads) {
            settle(open.list[i / 2], i % 2 == 1);
        }
    });
    static_assert(kLadderThreads % 2 == 0);   // both samples of a pair are the block's
    team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
        for (std::uint32_t i = block * kLadderThreads + thread; i < samples; i += blocks * kLadderThreads) {
            if (i % 2 == 0) open.list[i / 2] = {};
        }
    });
}

// Outputs: OneOutput, or SumParts (sum_body.hpp).
template <class Outputs>
struct LadderBody {
    Outputs outputs;
    bool gaussian;
    float s;
    OpenPairs open;
    OpenSamples left;   // what float64 cannot settle

    template <class Team>
    HUSHVEC_INLINE void run(unsigned block, unsigned blocks, const Team& team) const {
        settle_open_pairs(open, block, blocks, team, [this](const OpenPair& pair, bool second) HUSHVEC_INLINE_LAMBDA { settle(pair, second); });
    }

    HUSHVEC_DEVICE void settle(const OpenPair& pair, bool second) const {
        if (std::isnan(pair.x[second])) return;
        const SettledPlace at = outputs.place(pair.pair);
        const std::uint64_t sample = sample_of_pair(at.index, second);
        if (gaussian) {
            const GaussianWord word = {at.index, pair.words[0], pair.words[1], second};
            settle(word, at, at.index, sample, {pair.x[second], pair.pair, pair.words[0], pair.words[1], second});
        } else {
            settle(LaplaceWord{sample, pair.words[second]}, at, sample, sample, {pair.x[second], sample, pair.words[second], 0, false});
        }
    }

private:
    // One that stays open keeps what level 1 wrote until settle_body.hpp has it.
    template <class Word>
    HUSHVEC_DEVICE void settle(const Word& word, const SettledPlace& at, std::uint64_t index, std::uint64_t sample, const OpenSample& kept) const {
        if (const auto n = settle_float64(known_bits(word), kept.x, s)) return at.out.store(sample, *n);
        if (const auto n = settle_float64(known_bits(word, extension_block(stream_of(at.source), index)), kept.x, s)) return at.out.store(sample, *n);
        left.add(kept);
    }
};

}  // namespace hushvec::cuda
