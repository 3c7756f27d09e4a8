// Discrete noise on a device: one word a sample says nearly always what it is. The others go into a list, for the host.
//
// Half a warp makes one group, as in fill_body.hpp: lane l owns block `group * 16 + l` of both domains.
#pragma once

#include "device/source.hpp"
#include "device/team.hpp"
#include "device/thread_lane.hpp"
#include "discrete/place_words.hpp"
#include "rng/chacha_lanes.hpp"

namespace hushvec::cuda {

inline constexpr unsigned kDiscreteThreads = 256;

// A sample that its word does not decide.
struct OpenInteger {
    std::uint64_t sample;
    std::uint32_t word, low;
};

// The same place in the list once it is decided.
struct SettledInteger {
    std::uint64_t sample;
    std::int64_t value;
};
static_assert(sizeof(SettledInteger) == sizeof(OpenInteger));

// At most 59 samples in 1,000 are open (Laplacian, scale 2^20; measured at 50 scales an octave), nearly always fewer than 10. That a call
// has more than this has a probability below 10^-100; it would be refused.
constexpr std::size_t open_integer_capacity(std::size_t samples) {
    const std::size_t whole = (samples + kGroupSamples - 1) / kGroupSamples * kGroupSamples, most = 4096 + samples / 12;
    return whole < most ? whole : most;
}

template <class Integer>
struct DiscreteBody {
    CallStream source;
    const std::uint32_t* guide;   // WordGuide::entry
    int cell_bits, low_bits;
    Integer* out;
    std::size_t count;
    Report* report;
    OpenInteger* list;
    std::size_t capacity;

    template <class Team>
    HUSHVEC_INLINE void run(std::size_t block, std::size_t blocks, const Team& team) const {
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            ChaChaLanes<Thread> main(stream_of(source), domain::kMain), low(stream_of(source), domain::kDiscreteLow);
            const unsigned lane = thread % kGroupBlocks;
            const std::size_t step = blocks * (kDiscreteThreads / kGroupBlocks);
            for (std::size_t group = block * (kDiscreteThreads / kGroupBlocks) + thread / kGroupBlocks; group * kGroupSamples < count;
                 group += step) {
                std::uint32_t words[kBlockWords], low_words[kBlockWords] = {};
                main.blocks(group * kGroupBlocks + lane, words, 1);
                if (low_bits > 0) low.blocks(group * kGroupBlocks + lane, low_words, 1);
                HUSHVEC_UNROLL
                for (unsigned word = 0; word < kBlockWords; ++word) {
                    const std::size_t i = group * kGroupSamples + word * kGroupBlocks + lane;
                    if (i < count) put(i, words[word], low_words[word]);
                }
            }
        });
    }

private:
    HUSHVEC_INLINE void put(std::size_t i, std::uint32_t word, std::uint32_t low) const {
        const auto placed = place_word<Thread>(cell_bits, word, guide[word >> kWithinBits]);
        out[i] = static_cast<Integer>(integer_of_cell(placed.cell, low, low_bits));
        if (!placed.is_open) return;
        const std::uint32_t slot = atomic_increment(&report->open_samples);
        if (slot < capacity) {
            list[slot] = {i, word, low};
        } else if (slot == capacity) {   // one thread
            report->overflow = 1;
        }
    }
};

// Writes what was settled, and leaves zeros in the list: whoever gets its memory next could take the noise off the samples.
template <class Integer>
struct SettledIntegersBody {
    Integer* out;
    SettledInteger* list;
    std::size_t listed;

    template <class Team>
    HUSHVEC_INLINE void run(std::size_t block, std::size_t blocks, const Team& team) const {
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            for (std::size_t i = block * kDiscreteThreads + thread; i < listed; i += blocks * kDiscreteThreads) {
                out[list[i].sample] = static_cast<Integer>(list[i].value);
                list[i] = {};
            }
        });
    }
};

}  // namespace hushvec::cuda
