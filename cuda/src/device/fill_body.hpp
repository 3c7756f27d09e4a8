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
            const std::size_t step = std::size_t{blocks} * (kFillThreads / kGroupBlocks);
            for (std::size_t group = std::size_t{block} * (kFillThreads / kGroupBlocks) + thread / kGroupBlocks;
                 group * kGroupSamples < count; group += step) {
                const std::size_t first = group * kGroupSamples + lane;
                Stored* const target = out + first;
                const std::uint32_t left = left_from(first, count, kGroupSamples);
                // clang-format off
                thread_noise.block(group, lane, [](unsigned) { return Wide<Stored>{0}; },
                                   [=](unsigned word, Wide<Stored> y) HUSHVEC_INLINE_LAMBDA {
                    if (word * kGroupBlocks < left) target[word * kGroupBlocks] = narrowed<Stored>(y);
                });
                // clang-format on
            }
        });
    }
};

}  // namespace hushvec::cuda
