// Standard normals in float32 lanes, with what bounds their errors: the Z of PrivUnitG at level 1.
//
// Unlike the exact fills, PrivUnitG needs all of a row's normals for one inner product before it rounds anything, so they are
// stored, and the error of that inner product is bounded through the row's sum of squared radii (docs/proofs/privunit.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "hushvec/keystream.hpp"
#include "lanes/inline.hpp"
#include "noise/error_bounds.hpp"
#include "noise/exact_round.hpp"
#include "noise/group_kernels.hpp"

namespace hushvec {

// Lanes whose radius word lies outside the window of level 1: value[0] (cosine) and value[1] (sine) become float64 normals
// of 64 bits, rounded. Lane l belongs to block first_block + l and word `word`. False if a uniform begins with 32 zero bits.
HUSHVEC_COLD bool normals_outside_window(const KeyStream& stream, std::uint64_t first_block, std::size_t word, std::uint32_t lanes,
                                         const std::uint32_t* radius_word, const std::uint32_t* angle_word, float (*value)[kMaxLanes]);

template <class V>
HUSHVEC_COLD bool replace_outside_window(const KeyStream& stream, std::uint64_t first_block, std::size_t word, std::uint32_t lanes,
                                         typename V::U32 radius_word, typename V::U32 angle_word, LanePair<V>& z) {
    alignas(64) std::uint32_t words[2][kMaxLanes];
    alignas(64) float value[2][kMaxLanes];
    V::store(words[0], radius_word);
    V::store(words[1], angle_word);
    V::store(value[0], z.cosine);
    V::store(value[1], z.sine);
    const bool bounded = normals_outside_window(stream, first_block, word, lanes, words[0], words[1], value);
    z = {V::load(value[0]), V::load(value[1])};
    return bounded;
}

// z of whole groups, each |z - Z| <= per_scale + per_radius * radius of the level-1 bound. radius_squares[group] is the sum of
// the squared radii of the group's 256 samples, to 2^-16 relative; infinite where a z has no bound.
template <class V, class Words>
void unit_normals(const KeyStream& stream, std::uint64_t first_group, std::size_t groups, float* z, float* radius_squares) {
    for (std::size_t group = 0; group < groups; ++group) radius_squares[group] = 0.0f;
    for_each_slice<V, Words>(stream, domain::kMain, first_group, groups, [&](const std::uint32_t* words, std::size_t offset, std::size_t group) HUSHVEC_INLINE_LAMBDA {
        float* target = z + group * kGroupSamples + offset;
        auto sum = V::set(0.0f);
        bool bounded = true;
        for (std::size_t word = 0; word < kBlockWords / 2; ++word) {
            const std::size_t first = word * kGroupBlocks;
            const auto radius_word = V::load(words + first);
            const auto angle_word = V::load(words + first + kHalfGroup);
            const NormalPair<V> normal = normal_pair<V>(radius_word, angle_word);
            const auto radius = V::flip_sign(normal.radius, angle_word);
            LanePair<V> value = {V::mul(radius, normal.cosine), V::mul(radius, normal.sine)};
            sum = V::multiply_add(radius, radius, sum);
            const auto outside = outside_window<V, kGaussianWindow>(radius_word);
            if (V::any(outside)) [[unlikely]] {
                const std::uint64_t block = (first_group + group) * kGroupBlocks + offset;
                bounded &= replace_outside_window<V>(stream, block, word, V::bits(outside), radius_word, angle_word, value);
            }
            V::store(target + first, value.cosine);
            V::store(target + first + kHalfGroup, value.sine);
        }
        alignas(64) float lane_sums[kMaxLanes];
        V::store(lane_sums, sum);
        float total = 0.0f;
        for (std::size_t lane = 0; lane < V::lanes; ++lane) total += lane_sums[lane];
        radius_squares[group] += bounded ? 2.0f * total : std::numeric_limits<float>::infinity();
    });
}

}  // namespace hushvec
