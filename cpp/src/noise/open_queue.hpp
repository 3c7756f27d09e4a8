// What level 0 of version 3 leaves open, until levels 1 to 4 decide it in full vectors (noise/half_word_kernels.hpp). The queue is the
// caller's, who keeps it over many runs: most are too short to fill a vector. Output of a run stays where it is until the queue is settled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "hushvec/keystream.hpp"
#include "noise/settle_lanes.hpp"

namespace hushvec {

// Entries are pairs, by their first samples, or Laplace samples, which have the first element alone.
template <class Element>
struct OpenQueue {
    static constexpr std::size_t kFull = 64;                             // settled from here on
    static constexpr std::size_t kRoom = kFull + kGroupSamples + kMaxLanes;   // one group more, and what is read behind the last

    std::uint32_t word[kRoom];
    std::uint64_t sample[kRoom];   // its number in the call
    float* y[kRoom];               // where it is written
    Element x[2][kRoom];           // clipped
    std::size_t size = 0;
};

// Not on the stack, which is wiped behind every call as far down as kernels reach (memory/stack_frames.cpp): a queue takes as much as they do.
template <class Element>
std::unique_ptr<OpenQueue<Element>> new_open_queue() {
    return std::make_unique_for_overwrite<OpenQueue<Element>>();
}

}  // namespace hushvec
