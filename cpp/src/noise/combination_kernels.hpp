// Kernels for exact noise that is a combination of several streams' normals: y = g round(X + s_1 Z_1 + ... + s_p Z_p).
//
// The noise of each stream is added up in float32, with the sum of the radii that bounds its error, in buffers that stay in a
// cache; then X is added and rounded once. noise/combination_sum.hpp has the arithmetic.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "noise/combination.hpp"
#include "noise/combination_sum.hpp"
#include "noise/exact_round.hpp"
#include "noise/group_kernels.hpp"

namespace hushvec {

template <class V, bool add>
[[gnu::noinline]] void add_normals_loop(const WordsOfGroups& groups, float s, float* noise, float* reach) {
    const auto scale = V::set(s), size = V::set(s < 0 ? -s : s);
    for_pairs<V>(groups, [](std::size_t) {}, [&](const PairLanes<V>& at) HUSHVEC_INLINE_LAMBDA {
        const NormalPair<V> normal = at.normals();
        NormalSum<V> sum;
        if constexpr (add) {
            const NormalSum<V> before = {V::load(noise + at.first), V::load(noise + at.second), V::load(reach + at.first)};
            sum = before.plus(normal, at.angle_word, scale, size, normal.radius);
        } else {
            sum = NormalSum<V>::of(normal, at.angle_word, scale, size, normal.radius);
        }
        V::store(noise + at.first, sum.cosine);
        V::store(noise + at.second, sum.sine);
        V::store(reach + at.first, sum.reach);
        const auto outside = outside_window<V, kGaussianWindow>(at.radius_word);
        if (V::any(outside)) [[unlikely]] {
            for (std::uint32_t lanes = V::bits(outside); lanes != 0; lanes &= lanes - 1) {
                reach[at.first + static_cast<std::size_t>(std::countr_zero(lanes))] = std::numeric_limits<float>::infinity();
            }
        } });
}

template <class V, class Words>
void add_normals(const KeyStream& stream, const NormalsRun& run) {
    for_words_of_groups<Words>(stream, run.first_group, run.groups, [&](const WordsOfGroups& words, std::size_t before) {
        const auto loop = run.add ? add_normals_loop<V, true> : add_normals_loop<V, false>;
        loop(words, run.s, run.noise + before, run.reach + before);
    });
}

// The samples of one vector of pairs that float32 left open; lane l is pair first_pair + l.
template <class V>
HUSHVEC_COLD void settle_open_combination(const CombinationRun& run, std::uint64_t first_pair, std::size_t first, std::uint32_t open) {
    for (; open != 0; open &= open - 1) {
        const auto lane = static_cast<std::size_t>(std::countr_zero(open));
        for (const bool sine : {false, true}) {
            const std::size_t sample = first + lane + (sine ? kHalfGroup : 0);
            run.y[sample] = run.grid * static_cast<float>(settle_combination(run.terms, first_pair + lane, sine, run.x[sample] * run.scale[0]));
        }
    }
}

template <class V>
[[gnu::noinline]] void round_combination(const CombinationRun& run, ErrorBound bound) {
    double scales = 0.0;
    for (const ScaledStream& term : run.terms) scales += term.s < 0 ? -term.s : term.s;
    const CombinationLimit limit(bound, run.terms.size(), scales);
    const auto g = V::set(run.grid);
    const auto scale = V::load(run.scale);
    for (std::size_t group = 0; group < run.groups; ++group) {
        for (std::size_t i = 0; i < kHalfGroup; i += V::lanes) {
            const std::size_t first = group * kGroupSamples + i, second = first + kHalfGroup;
            const Float64Elements<V> x_first = {V::mul(V::load(run.x + first), scale)}, x_second = {V::mul(V::load(run.x + second), scale)};
            const NormalSum<V> noise = {V::load(run.noise + first), V::load(run.noise + second), V::load(run.reach + first)};
            const CombinationRounding<V> rounding = limit.round(noise, x_first, x_second);
            V::store(run.y + first, V::mul(rounding.n.cosine, g));
            V::store(run.y + second, V::mul(rounding.n.sine, g));
            if (V::any(rounding.open)) [[unlikely]] {
                settle_open_combination<V>(run, (run.first_group + group) * kGroupPairs + i, first, V::bits(rounding.open));
            }
        }
    }
}

}  // namespace hushvec
