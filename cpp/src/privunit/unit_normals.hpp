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
HUSHVEC_COLD bool replace_outside_window(const KeyStream& stream, const PairLanes<V>& at, std::uint32_t lanes, LanePair<V>& z) {
    const std::size_t in_group = at.pair % kGroupPairs;
    const std::uint64_t first_block = at.pair / kGroupPairs * kGroupBlocks + in_group % kGroupBlocks;
    alignas(64) std::uint32_t words[2][kMaxLanes];
    alignas(64) float value[2][kMaxLanes];
    V::store(words[0], at.radius_word);
    V::store(words[1], at.angle_word);
    V::store(value[0], z.cosine);
    V::store(value[1], z.sine);
    const bool bounded = normals_outside_window(stream, first_block, in_group / kGroupBlocks, lanes, words[0], words[1], value);
    z = {V::load(value[0]), V::load(value[1])};
    return bounded;
}

template <class V>
[[gnu::noinline]] void unit_normals_loop(const KeyStream& stream, const WordsOfGroups& groups, float* z, float* radius_squares) {
    for (std::size_t group = 0; group < groups.groups; ++group, z += kGroupSamples) {
        auto sum = V::set(0.0f);
        bool bounded = true;
        const auto nothing = [](std::size_t) HUSHVEC_INLINE_LAMBDA {};   // z is in the cache
        for_pairs<V>(groups.one(group), nothing, [&](const PairLanes<V>& at) HUSHVEC_INLINE_LAMBDA {
            const NormalPair<V> normal = at.normals();
            const auto radius = V::flip_sign(normal.radius, at.angle_word);
            LanePair<V> value = {V::mul(radius, normal.cosine), V::mul(radius, normal.sine)};
            sum = V::multiply_add(radius, radius, sum);
            const auto outside = outside_window<V, kGaussianWindow>(at.radius_word);
            if (V::any(outside)) [[unlikely]]
                bounded &= replace_outside_window<V>(stream, at, V::bits(outside), value);
            V::store(z + at.first, value.cosine);
            V::store(z + at.second, value.sine);
        });
        alignas(64) float lane_sums[kMaxLanes];
        V::store(lane_sums, sum);
        float total = 0.0f;
        for (std::size_t lane = 0; lane < V::lanes; ++lane) total += lane_sums[lane];
        radius_squares[group] = bounded ? 2.0f * total : std::numeric_limits<float>::infinity();
    }
}

// z of whole groups, each |z - Z| <= per_scale + per_radius * radius of the level-1 bound. radius_squares[group] is the sum of
// the squared radii of the group's 256 samples, to 2^-16 relative; infinite where a z has no bound.
template <class V, class Words>
void unit_normals(const KeyStream& stream, std::uint64_t first_group, std::size_t groups, float* z, float* radius_squares) {
    for_words_of_groups<Words>(stream, first_group, groups, [&](const WordsOfGroups& words, std::size_t before) {
        unit_normals_loop<V>(stream, words, z + before, radius_squares + before / kGroupSamples);
    });
}

}  // namespace hushvec
