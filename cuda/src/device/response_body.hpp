// Randomized response on a device: codes are copied and checked, and the copy is answered for, so that what was checked is what is used.
//
// Half a warp makes the answers of one group, as in fill_body.hpp: lane l owns block `group * 16 + l` of both domains.
#pragma once

#include "device/source.hpp"
#include "device/team.hpp"
#include "device/thread_lane.hpp"
#include "discrete/response_intervals.hpp"
#include "rng/chacha_lanes.hpp"

namespace hushvec::cuda {

inline constexpr unsigned kResponseThreads = 256;

// Code: an unsigned integer as wide as the array's. A negative number in it is above every label that its type can hold.
template <class Code>
struct CopyCodesBody {
    const Code* codes;
    Code* out;
    std::size_t count;
    std::uint64_t labels;
    Report* report;

    template <class Team>
    HUSHVEC_INLINE void run(std::size_t block, std::size_t blocks, const Team& team) const {
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            std::size_t bad = count;
            for (std::size_t i = block * kResponseThreads + thread; i < count; i += blocks * kResponseThreads) {
                const Code code = codes[i];
                out[i] = code;
                if (!is_code(code, labels) && bad == count) bad = i;
            }
            if (bad < count) atomic_minimum(&report->first_bad_row, bad);
        });
    }
};

template <class Code>
struct ResponseBody {
    CallStream source;
    ResponseIntervals intervals;
    const Code* codes;
    Code* out;   // may be codes
    std::size_t count;

    template <class Team>
    HUSHVEC_INLINE void run(std::size_t block, std::size_t blocks, const Team& team) const {
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            ChaChaLanes<Thread> high(stream_of(source), domain::kResponseHigh), low(stream_of(source), domain::kResponseLow);
            const unsigned lane = thread % kGroupBlocks;
            const std::size_t step = blocks * (kResponseThreads / kGroupBlocks);
            for (std::size_t group = block * (kResponseThreads / kGroupBlocks) + thread / kGroupBlocks; group * kGroupSamples < count;
                 group += step) {
                const std::size_t first = group * kGroupSamples + lane;
                std::uint32_t high_words[kBlockWords], low_words[kBlockWords];
                high.blocks(group * kGroupBlocks + lane, high_words, 1);
                low.blocks(group * kGroupBlocks + lane, low_words, 1);
                HUSHVEC_UNROLL
                for (unsigned word = 0; word < kBlockWords; ++word) {
                    const std::size_t i = first + word * kGroupBlocks;
                    if (i >= count) continue;
                    const std::uint64_t uniform = (std::uint64_t{high_words[word]} << 32) | low_words[word];
                    out[i] = static_cast<Code>(intervals.answer(static_cast<std::uint32_t>(codes[i]), uniform));
                }
            }
        });
    }
};

}  // namespace hushvec::cuda
