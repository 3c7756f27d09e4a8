// The ladder below level 1 on a device: float64 at once, and a list for the few samples (4e-13 of them) that need more.
//
// settle_body.hpp settles the list after the kernel: the multiprecision level needs more stack than every thread should pay for.
#pragma once

#include "device/source.hpp"
#include "device/team.hpp"
#include "device/thread_lane.hpp"
#include "noise/ladder.hpp"
#include "noise/ladder_float64.hpp"
#include "rng/chacha_lanes.hpp"

namespace hushvec::cuda {

// A sample whose rounding two float64 looks left open.
struct OpenSample {
    double x;
    std::uint64_t index;         // pair (Gaussian) or sample (Laplace)
    std::uint32_t first_word;    // A, or W
    std::uint32_t second_word;   // B
    bool sine;
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
        } else {
            report->overflow = 1;
        }
    }
};

HUSHVEC_DEVICE inline Block extension_block(const KeyStream& stream, std::uint64_t index) {
    Block words;
    ChaChaLanes<Thread> chacha(stream, domain::kFirstExtension);
    chacha.blocks(index, words.data(), 1);
    return words;
}

// n of one sample. A listed one gets n = 0 for the time being.
HUSHVEC_COLD inline float settle_or_list(const CallStream& source, const OpenSamples& open, GaussianWord word, double x, double s) {
    if (const auto n = settle_float64(known_bits(word), x, s)) return static_cast<float>(*n);
    const Block extension = extension_block(stream_of(source), word.pair);
    if (const auto n = settle_float64(known_bits(word, extension), x, s)) return static_cast<float>(*n);
    open.add({x, word.pair, word.radius_word, word.angle_word, word.sine});
    return 0;
}

HUSHVEC_COLD inline float settle_or_list(const CallStream& source, const OpenSamples& open, LaplaceWord word, double x, double s) {
    if (const auto n = settle_float64(known_bits(word), x, s)) return static_cast<float>(*n);
    const Block extension = extension_block(stream_of(source), word.sample);
    if (const auto n = settle_float64(known_bits(word, extension), x, s)) return static_cast<float>(*n);
    open.add({x, word.sample, word.word, 0, false});
    return 0;
}

}  // namespace hushvec::cuda
