// Kernels over groups of 256 samples: key stream, noise-only fills, float-grade and exact noise on rows.
//
// A group is 16 blocks. An instruction set with fewer lanes takes it in slices; a slice is `lanes` blocks, and its
// word w fills samples w * 16 + slice * lanes onward.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dispatch/kernels.hpp"
#include "hushvec/keystream.hpp"
#include "lanes/inline.hpp"
#include "lanes/prefetch.hpp"
#include "noise/box_muller.hpp"
#include "noise/exact_round.hpp"
#include "noise/laplace.hpp"
#include "noise/tail.hpp"
#include "rng/aes_stream.hpp"
#include "rng/chacha_lanes.hpp"

namespace hushvec {

inline constexpr std::size_t kHalfGroup = kGroupSamples / 2;   // from word w to its partner w + 8

// Where a vector of words stands in the call (docs/format.md section 2).
struct SamplePosition {
    std::uint64_t group;
    std::size_t word;
    std::size_t lane;

    HUSHVEC_INLINE std::uint64_t sample() const { return group * kGroupSamples + word * kGroupBlocks + lane; }
    HUSHVEC_INLINE std::uint64_t pair() const { return group * kGroupPairs + word * kGroupBlocks + lane; }
};

template <class V, class Visit>
HUSHVEC_INLINE void visit_slices(const std::uint32_t* words, std::size_t first, std::size_t count, const Visit& visit) {
    for (std::size_t group = first; group < first + count; ++group, words += kGroupSamples) {
        for (std::size_t offset = 0; offset < kGroupBlocks; offset += V::lanes) visit(words + offset, offset, group);
    }
}

// In a function of its own: a loop with a call in it has its constants in memory.
template <class V, class Visit>
[[gnu::noinline]] void visit_slices_apart(const std::uint32_t* words, std::size_t first, std::size_t count, const Visit& visit) {
    visit_slices<V>(words, first, count, visit);
}

// Calls visit(words, offset, group) for every slice of every group; words points at the slice's word 0. Words is ChaChaLanes<V>, whose
// words are made in line, or AesWords, which calls the implementation in use.
template <class V, class Words, class Visit>
HUSHVEC_INLINE void for_each_slice(const KeyStream& stream, std::uint64_t domain_id, std::uint64_t first_group, std::size_t groups,
                                   Visit visit) {
    constexpr std::size_t kAtOnce = Words::groups_at_once;
    alignas(64) std::uint32_t words[kAtOnce * kGroupSamples];
    Words cipher(stream, domain_id);
    for (std::size_t first = 0; first < groups; first += kAtOnce) {
        const std::size_t here = groups - first < kAtOnce ? groups - first : kAtOnce;
        cipher.groups(first_group + first, here, words);
        if constexpr (kAtOnce == 1) {
            visit_slices<V>(words, first, 1, visit);
        } else {
            visit_slices_apart<V>(words, first, here, visit);
        }
    }
}

template <class V, class Words>
void keystream(const KeyStream& stream, std::uint64_t domain_id, std::uint64_t first_group, std::size_t groups, std::uint32_t* out) {
    Words(stream, domain_id).groups(first_group, groups, out);
}

// ---- noise only ----

// sigma Z for one vector of pairs, added to x: the tail beyond the first word's resolution is worked out in float64.
// Source is what resolve_gaussian_tail takes: a KeyStream on the CPU.
template <class V, class Source>
HUSHVEC_INLINE LanePair<V> gaussian_plus(const Source& stream, SamplePosition at, float sigma, typename V::F32 sigma_lanes,
                                         typename V::U32 radius_word, typename V::U32 angle_word, LanePair<V> x) {
    const NormalPair<V> normal = normal_pair<V>(radius_word, angle_word);
    const auto r = V::flip_sign(V::mul(normal.radius, sigma_lanes), angle_word);
    const LanePair<V> y = {V::multiply_add(r, normal.cosine, x.cosine), V::multiply_add(r, normal.sine, x.sine)};
    const auto tail = V::greater(V::set(kTailWord), radius_word);
    if (V::any(tail)) [[unlikely]]
        return resolve_gaussian_tail<V>(stream, at.pair(), V::bits(tail), sigma, radius_word, angle_word, x, y);
    return y;
}

template <class V, class Source>
HUSHVEC_INLINE typename V::F32 laplace_plus(const Source& stream, std::uint64_t sample, float scale, typename V::F32 half_scale,
                                            typename V::U32 word, typename V::F32 x) {
    const auto y = V::add(with_laplace_sign<V>(V::mul(minus_two_log<V>(word), half_scale), word), x);
    const auto tail = V::greater(V::set(kTailWord), word);
    if (V::any(tail)) [[unlikely]]
        return resolve_laplace_tail<V>(stream, sample, V::bits(tail), scale, word, x, y);
    return y;
}

template <class V, class Words>
void fill_gaussian(const KeyStream& stream, float sigma, std::uint64_t first_group, std::size_t groups, float* out) {
    const auto sigma_lanes = V::set(sigma);
    const LanePair<V> zero = {V::set(0.0f), V::set(0.0f)};
    for_each_slice<V, Words>(stream, domain::kMain, first_group, groups, [&](const std::uint32_t* words, std::size_t offset, std::size_t group) HUSHVEC_INLINE_LAMBDA {
        float* target = out + group * kGroupSamples + offset;
        for (std::size_t word = 0; word < kBlockWords / 2; ++word) {
            const std::size_t first = word * kGroupBlocks;
            const auto y = gaussian_plus<V>(stream, {first_group + group, word, offset}, sigma, sigma_lanes,
                                            V::load(words + first), V::load(words + first + kHalfGroup), zero);
            V::store(target + first, y.cosine);
            V::store(target + first + kHalfGroup, y.sine);
        }
    });
}

template <class V, class Words>
void fill_laplace(const KeyStream& stream, float scale, std::uint64_t first_group, std::size_t groups, float* out) {
    const auto half_scale = V::set(0.5f * scale);
    for_each_slice<V, Words>(stream, domain::kMain, first_group, groups, [&](const std::uint32_t* words, std::size_t offset, std::size_t group) HUSHVEC_INLINE_LAMBDA {
        float* target = out + group * kGroupSamples + offset;
        for (std::size_t word = 0; word < kBlockWords; ++word) {
            const SamplePosition at = {first_group + group, word, offset};
            const auto y = laplace_plus<V>(stream, at.sample(), scale, half_scale, V::load(words + word * kGroupBlocks), V::set(0.0f));
            V::store(target + word * kGroupBlocks, y);
        }
    });
}

// ---- noise on rows ----

template <class V>
HUSHVEC_INLINE Float32Elements<V> scaled_elements(const float* x, const float* row_scale) {
    return {V::mul(V::load(x), V::load(row_scale))};
}
template <class V>
HUSHVEC_INLINE Float64Elements<V> scaled_elements(const double* x, const double* row_scale) {
    return {V::mul(V::load(x), V::load(row_scale))};
}

// Walks a run pair by pair (words w and w + 8): noise(words..., x...) gives the two values to store.
template <class V, class Words, class Element, class Noise>
HUSHVEC_INLINE void for_each_pair(const KeyStream& stream, const NoiseRun<Element>& run, Noise noise) {
    for_each_slice<V, Words>(stream, domain::kMain, run.first_group, run.groups, [&](const std::uint32_t* words, std::size_t offset, std::size_t group) HUSHVEC_INLINE_LAMBDA {
        const std::size_t base = group * kGroupSamples + offset;
        const Element* row_scale = run.row_scale + (run.row_scale_step == 0 ? 0 : base);
        for (std::size_t word = 0; word < kBlockWords / 2; ++word) {
            const std::size_t first = word * kGroupBlocks;
            const std::size_t second = first + kHalfGroup;
            prefetch_to_read(run.x + base + first, run.x_bytes_ahead);
            prefetch_to_read(run.x + base + second, run.x_bytes_ahead);
            prefetch_to_write(run.y + base + first, run.y_bytes_ahead);
            prefetch_to_write(run.y + base + second, run.y_bytes_ahead);
            const auto x_first = scaled_elements<V>(run.x + base + first, row_scale + word * run.row_scale_step);
            const auto x_second = scaled_elements<V>(run.x + base + second, row_scale + (word + 8) * run.row_scale_step);
            const SamplePosition at = {run.first_group + group, word, offset};
            const auto [y_first, y_second] = noise(at, V::load(words + first), V::load(words + second), x_first, x_second);
            V::store(run.y + base + first, y_first);
            V::store(run.y + base + second, y_second);
        }
    });
}

template <class V, class Words, class Element>
void exact_gaussian_run(const KeyStream& stream, const NoiseRun<Element>& run, GridScale grid, ErrorBound bound) {
    const ExactScale<V> scale(grid.s, bound);
    const auto g = V::set(grid.grid);
    for_each_pair<V, Words>(stream, run, [&](SamplePosition at, auto radius_word, auto angle_word, auto x_cosine, auto x_sine) HUSHVEC_INLINE_LAMBDA {
        const auto n = exact_gaussian_pair<V>(stream, at.pair(), scale, radius_word, angle_word, x_cosine, x_sine);
        return LanePair<V>{V::mul(n.cosine, g), V::mul(n.sine, g)};
    });
}

template <class V, class Words, class Element>
void exact_laplace_run(const KeyStream& stream, const NoiseRun<Element>& run, GridScale grid, ErrorBound bound) {
    const ExactScale<V> scale(grid.s, bound);
    const auto g = V::set(grid.grid);
    for_each_pair<V, Words>(stream, run, [&](SamplePosition at, auto first_word, auto second_word, auto x_first, auto x_second) HUSHVEC_INLINE_LAMBDA {
        const auto n_first = exact_laplace<V>(stream, at.sample(), scale, first_word, x_first);
        const auto n_second = exact_laplace<V>(stream, at.sample() + kHalfGroup, scale, second_word, x_second);
        return LanePair<V>{V::mul(n_first, g), V::mul(n_second, g)};
    });
}

template <class V, class Words>
void add_gaussian_run(const KeyStream& stream, const NoiseRun<float>& run, float sigma) {
    const auto sigma_lanes = V::set(sigma);
    for_each_pair<V, Words>(stream, run, [&](SamplePosition at, auto radius_word, auto angle_word, auto x_cosine, auto x_sine) HUSHVEC_INLINE_LAMBDA {
        return gaussian_plus<V>(stream, at, sigma, sigma_lanes, radius_word, angle_word, {x_cosine.value, x_sine.value});
    });
}

template <class V, class Words>
void add_laplace_run(const KeyStream& stream, const NoiseRun<float>& run, float scale) {
    const auto half_scale = V::set(0.5f * scale);
    for_each_pair<V, Words>(stream, run, [&](SamplePosition at, auto first_word, auto second_word, auto x_first, auto x_second) HUSHVEC_INLINE_LAMBDA {
        return LanePair<V>{laplace_plus<V>(stream, at.sample(), scale, half_scale, first_word, x_first.value),
                           laplace_plus<V>(stream, at.sample() + kHalfGroup, scale, half_scale, second_word, x_second.value)};
    });
}

}  // namespace hushvec
