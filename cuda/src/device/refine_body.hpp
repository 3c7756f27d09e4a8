// After a kernel of version 3: the pairs that it left open, with sixteen bits more of each uniform (docs/format.md section 16).
// Level 1 has nearly all of them, unless the kernel asked it already (half_rows_body.hpp); the ladder the rest, in the same thread.
// A thread a pair. The list is zeros afterwards, as behind ladder_body.hpp.
#pragma once

#include "device/half_noise.hpp"
#include "device/ladder_body.hpp"

namespace hushvec::cuda {

// Behind level 0 of either law. Words[0] of a listed pair is its word of the main domain. Outputs as of LadderBody.
template <class Outputs>
struct RefineBody {
    LadderBody<Outputs> ladder;
    HalfGaussian<double> gaussian;
    HalfLaplace<double> laplace;

    RefineBody(const LadderBody<Outputs>& behind, float scale_in_grids)
        : ladder(behind), gaussian(scale_in_grids, 1.0f), laplace(scale_in_grids, 1.0f) {}

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
    HUSHVEC_INLINE void settle(OpenPair pair) const {
        const SettledPlace at = ladder.outputs.place(pair.pair);
        const std::uint32_t more = refinement_word(stream_of(at.source), at.index);
        // NaN, someone else's sample, would leave the pair open.
        const double x_first = std::isnan(pair.x[0]) ? 0.0 : pair.x[0], x_second = std::isnan(pair.x[1]) ? 0.0 : pair.x[1];
        const RefinedPair refined = ladder.gaussian ? gaussian.refined(pair.words[0], more, x_first, x_second)
                                                    : laplace.refined(pair.words[0], more, x_first, x_second);
        pair.words[0] = refined.words.first;
        pair.words[1] = refined.words.second;
        store(pair, at, false, refined.first, refined.open);
        store(pair, at, true, refined.second, refined.open);
    }

    HUSHVEC_INLINE void store(const OpenPair& pair, const SettledPlace& at, bool second, float n, bool open) const {
        if (open) return settle_by_ladder(pair, second);
        if (!std::isnan(pair.x[second])) at.out.store(sample_of_pair(at.index, second), static_cast<std::int32_t>(n));
    }

    HUSHVEC_COLD void settle_by_ladder(const OpenPair& pair, bool second) const { ladder.settle(pair, second); }
};

}  // namespace hushvec::cuda
