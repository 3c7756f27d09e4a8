// After a kernel of version 3: the pairs that level 0 left open, with sixteen bits more of each uniform (docs/format.md section
// 16). Level 1 has nearly all of them; the ladder the rest, in the same thread. A thread a pair. The list is zeros afterwards, as
// behind ladder_body.hpp.
#pragma once

#include "device/ladder_body.hpp"
#include "device/level_one.hpp"
#include "noise/joined_words.hpp"

namespace hushvec::cuda {

// Word `number` of domain 29, in the place that section 2 gives to sample `number`.
HUSHVEC_DEVICE inline std::uint32_t refinement_word(const KeyStream& stream, std::uint64_t number) {
    std::uint32_t words[kBlockWords];
    ChaChaLanes<Thread> chacha(stream, domain::kRefinement);
    chacha.blocks(ChaChaLanes<Thread>::block_of(number), words, 1);
    // Chosen by halves: an index into registers would put them into local memory.
    const auto index = static_cast<unsigned>(ChaChaLanes<Thread>::word_of(number));
    HUSHVEC_UNROLL
    for (unsigned half = kBlockWords / 2; half > 0; half /= 2) {
        HUSHVEC_UNROLL
        for (unsigned i = 0; i < kBlockWords / 2; ++i) {
            if (i < half && (index & half) != 0) words[i] = words[i + half];
        }
    }
    return words[0];
}

// Behind level 0 of either law. Words[0] of a listed pair is its word of the main domain. Outputs as of LadderBody.
template <class Outputs>
struct RefineBody {
    LadderBody<Outputs> ladder;
    GaussianLevelOne gaussian;
    LaplaceLevelOne laplace;

    RefineBody(const LadderBody<Outputs>& behind, float scale_in_grids)
        : ladder(behind), gaussian(scale_in_grids), laplace(scale_in_grids) {}

    template <class Team>
    HUSHVEC_INLINE void run(unsigned block, unsigned blocks, const Team& team) const {
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            const std::uint32_t listed = ladder.open.size();
            HUSHVEC_UNROLL_BY(1)
            for (std::uint32_t i = block * kLadderThreads + thread; i < listed; i += blocks * kLadderThreads) {
                OpenPair& pair = ladder.open.list[i];
                settle(pair);
                pair = {};
            }
        });
    }

private:
    HUSHVEC_INLINE void settle(const OpenPair& pair) const {
        const SettledPlace at = ladder.outputs.place(pair.pair);
        settle(joined(refinement_word(stream_of(at.source), at.index), pair), at);
    }

    HUSHVEC_INLINE OpenPair joined(std::uint32_t more, OpenPair pair) const {
        const JoinedPair words = ladder.gaussian ? joined_gaussian(pair.words[0], more) : joined_laplaces(pair.words[0], more);
        pair.words[0] = words.first;
        pair.words[1] = words.second;
        return pair;
    }

    HUSHVEC_INLINE void settle(const OpenPair& pair, const SettledPlace& at) const {
        using Elements = Float64Elements<Thread>;
        // NaN, someone else's sample, would leave the pair open.
        const Elements x_first = {std::isnan(pair.x[0]) ? 0.0 : pair.x[0]}, x_second = {std::isnan(pair.x[1]) ? 0.0 : pair.x[1]};
        if (ladder.gaussian) {
            const auto rounding = gaussian.round(pair.words[0], pair.words[1], x_first, x_second);
            store(pair, at, false, rounding.n.cosine, rounding.open);
            store(pair, at, true, rounding.n.sine, rounding.open);
        } else {
            const auto first = laplace.round(pair.words[0], x_first), second = laplace.round(pair.words[1], x_second);
            store(pair, at, false, first.n, first.open);
            store(pair, at, true, second.n, second.open);
        }
    }

    HUSHVEC_INLINE void store(const OpenPair& pair, const SettledPlace& at, bool second, float n, bool open) const {
        if (open) return settle_by_ladder(pair, second);
        if (!std::isnan(pair.x[second])) at.out.store(sample_of_pair(at.index, second), static_cast<std::int32_t>(n));
    }

    HUSHVEC_COLD void settle_by_ladder(const OpenPair& pair, bool second) const { ladder.settle(pair, second); }
};

}  // namespace hushvec::cuda
