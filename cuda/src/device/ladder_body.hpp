// After a kernel: the pairs that level 1 left open, in float64, from the first words and then from 64 bits more. A thread a sample.
#pragma once

#include "device/open_samples.hpp"
#include "device/settled_output.hpp"
#include "device/source.hpp"
#include "device/team.hpp"
#include "noise/ladder_float64.hpp"

namespace hushvec::cuda {

inline constexpr unsigned kLadderThreads = 128;

struct LadderBody {
    CallStream source;
    bool gaussian;
    float s;
    OpenPairs open;
    OpenSamples left;   // what float64 cannot settle
    SettledOutput out;

    template <class Team>
    HUSHVEC_INLINE void run(unsigned block, unsigned blocks, const Team& team) const {
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            const std::uint32_t samples = 2 * open.size();
            for (std::uint32_t i = block * kLadderThreads + thread; i < samples; i += blocks * kLadderThreads) {
                settle(open.list[i / 2], i % 2 == 1);
            }
        });
    }

private:
    HUSHVEC_DEVICE void settle(const OpenPair& pair, bool second) const {
        if (std::isnan(pair.x[second])) return;
        const std::uint64_t sample = sample_of_pair(pair.pair, second);
        if (gaussian) {
            settle(GaussianWord{pair.pair, pair.words[0], pair.words[1], second}, pair.pair, sample, pair, second);
        } else {
            settle(LaplaceWord{sample, pair.words[second]}, sample, sample, pair, second);
        }
    }

    // One that stays open keeps what level 1 wrote until settle_body.hpp has it.
    template <class Word>
    HUSHVEC_DEVICE void settle(const Word& word, std::uint64_t index, std::uint64_t sample, const OpenPair& pair, bool second) const {
        const double x = pair.x[second];
        if (const auto n = settle_float64(known_bits(word), x, s)) return out.store(sample, *n);
        if (const auto n = settle_float64(known_bits(word, extension_block(stream_of(source), index)), x, s)) return out.store(sample, *n);
        if (gaussian) {
            left.add({x, index, pair.words[0], pair.words[1], second});
        } else {
            left.add({x, index, pair.words[second], 0, false});
        }
    }
};

}  // namespace hushvec::cuda
