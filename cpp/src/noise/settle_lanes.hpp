// What a vector level hands to the ladder when it cannot decide: the lanes, spilled.
//
// Patching happens before the store, while the words are at hand; an in-place caller has lost x afterwards.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "hushvec/keystream.hpp"
#include "lanes/inline.hpp"

namespace hushvec {

inline constexpr std::size_t kMaxLanes = 16;

struct OpenGaussianLanes {
    alignas(64) std::uint32_t radius_word[kMaxLanes];
    alignas(64) std::uint32_t angle_word[kMaxLanes];
    alignas(64) double x[2][kMaxLanes];            // X of the cosine and of the sine sample
    alignas(64) float index[2][kMaxLanes];         // n, corrected in place
    alignas(64) float distance[2][kMaxLanes];      // d
    alignas(64) float limit[kMaxLanes];            // 1/2 - E
};

struct OpenLaplaceLanes {
    alignas(64) std::uint32_t word[kMaxLanes];
    alignas(64) double x[kMaxLanes];
    alignas(64) float index[kMaxLanes];
};

// Calls visit(lane) for every lane in `open`.
template <class Visit>
HUSHVEC_INLINE void for_lanes(std::uint32_t open, Visit visit) {
    for (; open != 0; open &= open - 1) visit(static_cast<std::size_t>(std::countr_zero(open)));
}

// Settles the lanes set in `open`; lane l is pair first_pair + l (sample first_sample + l).
HUSHVEC_COLD void settle_lanes(const KeyStream& stream, std::uint64_t first_pair, std::uint32_t open, double s,
                               OpenGaussianLanes& lanes);
HUSHVEC_COLD void settle_lanes(const KeyStream& stream, std::uint64_t first_sample, std::uint32_t open, double s,
                               OpenLaplaceLanes& lanes);

}  // namespace hushvec
