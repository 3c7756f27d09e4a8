// The far tail of the floating-point variates: uniforms whose first word is tiny get 32 more bits and float64.
//
// A 32-bit word alone would stop at 6.66 sigma and be coarse before. Below kTailWord (radius above 5.7, one word in 2^24)
// the value comes from bits 1 to 64 of the same uniform, so tails reach 9.4 sigma with their true law.
#pragma once

#include <cstdint>

#include "hushvec/keystream.hpp"
#include "lanes/inline.hpp"
#include "noise/box_muller.hpp"
#include "noise/settle_lanes.hpp"

namespace hushvec {

inline constexpr std::uint32_t kTailWord = 1u << 8;

// Lane l is pair first_pair + l. Overwrites value[0][l] (cosine) and value[1][l] (sine) with x + sigma Z where `tail` has bit l.
HUSHVEC_COLD void gaussian_tail(const KeyStream& stream, std::uint64_t first_pair, std::uint32_t tail, float sigma,
                                const std::uint32_t* radius_word, const std::uint32_t* angle_word,
                                const float (*x)[kMaxLanes], float (*value)[kMaxLanes]);
HUSHVEC_COLD void laplace_tail(const KeyStream& stream, std::uint64_t first_sample, std::uint32_t tail, float scale,
                               const std::uint32_t* word, const float* x, float* value);

template <class V>
HUSHVEC_COLD LanePair<V> resolve_gaussian_tail(const KeyStream& stream, std::uint64_t first_pair, std::uint32_t tail, float sigma,
                                               typename V::U32 radius_word, typename V::U32 angle_word, LanePair<V> x, LanePair<V> y) {
    alignas(64) std::uint32_t radius[kMaxLanes], angle[kMaxLanes];
    alignas(64) float x_lanes[2][kMaxLanes], value[2][kMaxLanes];
    V::store(radius, radius_word);
    V::store(angle, angle_word);
    V::store(x_lanes[0], x.cosine);
    V::store(x_lanes[1], x.sine);
    V::store(value[0], y.cosine);
    V::store(value[1], y.sine);
    gaussian_tail(stream, first_pair, tail, sigma, radius, angle, x_lanes, value);
    return {V::load(value[0]), V::load(value[1])};
}

template <class V>
HUSHVEC_COLD typename V::F32 resolve_laplace_tail(const KeyStream& stream, std::uint64_t first_sample, std::uint32_t tail, float scale,
                                                  typename V::U32 word, typename V::F32 x, typename V::F32 y) {
    alignas(64) std::uint32_t words[kMaxLanes];
    alignas(64) float x_lanes[kMaxLanes], value[kMaxLanes];
    V::store(words, word);
    V::store(x_lanes, x);
    V::store(value, y);
    laplace_tail(stream, first_sample, tail, scale, words, x_lanes, value);
    return V::load(value);
}

}  // namespace hushvec
