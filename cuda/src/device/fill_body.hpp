// Noise alone: half a warp makes one group of 256 samples and goes on to the next that is its own.
#pragma once

#include "device/noise.hpp"
#include "device/source.hpp"
#include "device/team.hpp"

namespace hushvec::cuda {

inline constexpr unsigned kFillThreads = 256;

template <class Stored, class Noise>
struct FillBody {
    CallStream source;
    Noise noise;
    Stored* out;
    std::size_t count;

    template <class Team>
    HUSHVEC_INLINE void run(unsigned block, unsigned blocks, const Team& team) const {
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            ThreadNoise<Noise> thread_noise(noise, source);
            const unsigned lane = thread % kGroupBlocks;
            const std::size_t step = std::size_t{blocks} * (kFillThreads / kGroupBlocks), whole = count / kGroupSamples;
            std::size_t group = std::size_t{block} * (kFillThreads / kGroupBlocks) + thread / kGroupBlocks;
            for (; group < whole; group += step) fill(thread_noise, group, lane, [](unsigned) { return true; });
            const auto left = static_cast<unsigned>(count % kGroupSamples);
            if (group == whole && left > 0) {
                fill(thread_noise, group, lane, [=](unsigned word) { return word * kGroupBlocks + lane < left; });
            }
        });
    }

private:
    // One group, where `there` says of a word that its sample is.
    template <class There>
    HUSHVEC_INLINE void fill(ThreadNoise<Noise>& thread_noise, std::size_t group, unsigned lane, There there) const {
        Stored* const target = out + group * kGroupSamples + lane;
        thread_noise.block(
            group, lane, [](unsigned) { return Wide<Stored>{0}; },
            [=](unsigned word, Wide<Stored> y) HUSHVEC_INLINE_LAMBDA {
                if (there(word)) target[word * kGroupBlocks] = narrowed<Stored>(y);
            });
    }
};

}  // namespace hushvec::cuda
