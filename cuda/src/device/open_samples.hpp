// What level 1 leaves open, or in version 3 level 0: pairs in a list, for the ladder that runs behind the kernel
// (ladder_body.hpp, refine_body.hpp), and in a second list the few samples (4e-13 of them) that it cannot settle in float64
// either, for settle_body.hpp.
//
// Lists, because the ladder in every thread would cost registers and a branch that half the warps take.
#pragma once

#include <cstddef>
#include <limits>

#include "device/source.hpp"
#include "device/team.hpp"
#include "device/thread_lane.hpp"
#include "rng/chacha_lanes.hpp"

namespace hushvec::cuda {

// Two samples that share a pair of words, one of them open at least. In version 3 the first word is both.
struct OpenPair {
    std::uint64_t pair;
    std::uint32_t words[2];
    double x[2];   // kNotOurs: someone else's sample
};
inline constexpr double kNotOurs = std::numeric_limits<double>::quiet_NaN();

// Level 1 leaves at most 7 samples in 10,000 (s = 128), so 7 pairs for 10,000 samples. With fewer than 4,096 in reserve, 1 call in 10^100
// would not have room.
constexpr std::size_t open_pair_capacity(std::size_t samples) {
    const std::size_t pairs = (samples + kGroupSamples - 1) / kGroupSamples * kGroupPairs, most = 4096 + samples / 1024;
    return pairs < most ? pairs : most;
}

// Of rows, which may be of version 3: level 0 leaves 1 Laplace pair in 115 open (s = 16), so 1 for 230 samples.
constexpr std::size_t open_row_pair_capacity(std::size_t samples) {
    const std::size_t pairs = (samples + kGroupSamples - 1) / kGroupSamples * kGroupPairs, most = 4096 + samples / 128;
    return pairs < most ? pairs : most;
}

// The same where the noise of `terms` streams adds up, with coefficients whose magnitudes sum to `size`, s = 128: level 1 leaves 2 E of all
// samples open, and 2^-14 of all words. 4 times in 10 more than that. Noise below half of s does not spread over many grids.
constexpr std::size_t open_pair_capacity(std::size_t samples, std::size_t terms, double size) {
    constexpr double s = 128, mean_radius = 1.2534;   // of the inverse radius too
    const std::size_t pairs = (samples + kGroupSamples - 1) / kGroupSamples * kGroupPairs;
    const double per_radius = 1.65e-6 + 4.6e-7 + static_cast<double>(terms + 1) * 0x1p-24;
    const double share = 3.0e-7 + 2 * per_radius * s * size * mean_radius + static_cast<double>(terms) * 0x1p-15;
    const auto most = static_cast<std::size_t>(4096 + 1.4 * share * static_cast<double>(samples));
    return size < 0.5 || pairs < most ? pairs : most;
}

struct OpenPairs {
    OpenPair* list;
    std::uint32_t capacity;
    std::uint32_t* listed;     // may exceed the capacity
    std::uint32_t* overflow;   // of the report
    std::uint64_t first_pair = 0;   // what the list's numbers are counted from

    HUSHVEC_INLINE void add(const OpenPair& pair) const {
        const std::uint32_t slot = atomic_increment(listed);
        if (slot < capacity) {
            list[slot] = pair;
            list[slot].pair += first_pair;
        } else if (slot == capacity) {   // one thread
            *overflow = 1;
        }
    }
    HUSHVEC_INLINE std::uint32_t size() const { return *listed < capacity ? *listed : capacity; }
};

// A sample whose rounding two float64 looks left open.
struct OpenSample {
    double x;
    std::uint64_t index;         // pair (Gaussian) or sample (Laplace)
    std::uint32_t first_word;    // A, or W
    std::uint32_t second_word;   // B
    std::uint64_t sine;          // 0 or 1: a bool would leave bytes that nobody wipes
};

// Enough for 10^13 samples in one call, with a chance of 10^-100 of more.
inline constexpr std::uint32_t kOpenCapacity = 1024;

struct OpenSamples {
    Report* report;
    OpenSample* list;

    HUSHVEC_DEVICE void add(const OpenSample& sample) const {
        const std::uint32_t slot = atomic_increment(&report->open_samples);
        if (slot < kOpenCapacity) {
            list[slot] = sample;
        } else if (slot == kOpenCapacity) {   // one thread
            report->overflow = 1;
        }
    }
    HUSHVEC_DEVICE std::uint32_t size() const { return report->open_samples < kOpenCapacity ? report->open_samples : kOpenCapacity; }
};

HUSHVEC_DEVICE inline Block extension_block(const KeyStream& stream, std::uint64_t index) {
    Block words;
    ChaChaLanes<Thread> chacha(stream, domain::kFirstExtension);
    chacha.blocks(index, words.data(), 1);
    return words;
}

}  // namespace hushvec::cuda
