// Kernels of exact noise of version 3: level 0 over groups of samples, and a queue of what it leaves open, which levels 1 to 4 decide in
// full vectors.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "dispatch/kernels.hpp"
#include "hushvec/keystream.hpp"
#include "noise/exact_round.hpp"
#include "noise/group_kernels.hpp"
#include "noise/half_words.hpp"
#include "noise/joined_words.hpp"
#include "noise/settle_lanes.hpp"

namespace hushvec {

// A group of words makes two groups of samples.
inline constexpr std::size_t kOpenAtOnce = kGroupSamples;   // pairs; of Laplace samples twice as many

// What level 0 left open: the word, where the sample (of a pair the first one) lies in the run, and the clipped elements.
template <class Element, std::size_t samples>
struct OpenQueue {
    static constexpr std::size_t kFull = 64;   // settled from here on: mostly full vectors
    static constexpr std::size_t kRoom = kFull + 2 * kOpenAtOnce / samples + kMaxLanes;

    std::uint32_t word[kRoom];
    std::uint32_t place[kRoom];
    Element x[samples][kRoom];
    std::size_t size = 0;
};

// Groups of one call whose places fit 32 bits.
inline constexpr std::size_t kMostGroupsOfQueue = std::size_t{1} << 22;

HUSHVEC_INLINE constexpr std::uint64_t pair_of_sample(std::uint64_t sample) {
    return sample / kGroupSamples * kGroupPairs + sample % kGroupPairs;
}

// Calls visit(words of pairs, first group of samples, groups) for groups [first_group, first_group + groups): at most two at a time.
template <class Words, class Visit>
HUSHVEC_INLINE void for_half_words_of_groups(const KeyStream& stream, std::uint64_t first_group, std::size_t groups, Visit visit) {
    constexpr std::size_t kAtOnce = Words::groups_at_once;
    alignas(64) std::uint32_t words[kAtOnce * kGroupSamples];
    Words cipher(stream, domain::kMain);
    const std::uint64_t end = first_group + groups;
    for (std::uint64_t group = first_group; group < end;) {
        const std::uint64_t first_words = group / 2;
        const std::size_t here = std::min<std::uint64_t>(kAtOnce, (end + 1) / 2 - first_words);
        cipher.groups(first_words, here, words);
        for (std::size_t i = 0; i < here; ++i) {
            const std::uint64_t last = std::min<std::uint64_t>(end, 2 * (first_words + i + 1));
            visit(words + i * kGroupSamples + group % 2 * kGroupPairs, group, static_cast<std::size_t>(last - group));
            group = last;
        }
    }
}

template <class V>
HUSHVEC_INLINE Float32Elements<V> load_elements(const float* x) { return {V::load(x)}; }
template <class V>
HUSHVEC_INLINE Float64Elements<V> load_elements(const double* x) { return {V::load(x)}; }

// The lanes in `open`, whose first samples lie from `place` on in the run.
template <class V, class Element, std::size_t samples, class... Elements>
HUSHVEC_INLINE void push_open(OpenQueue<Element, samples>& queue, typename V::Mask open, typename V::U32 words, std::size_t place, Elements... x) {
    alignas(64) std::uint32_t word[V::lanes];
    alignas(64) Element elements[samples][V::lanes];
    V::store(word, words);
    std::size_t i = 0;
    (V::store(elements[i++], x.value), ...);
    for_lanes(V::bits(open), [&](std::size_t lane) HUSHVEC_INLINE_LAMBDA {
        queue.word[queue.size] = word[lane];
        queue.place[queue.size] = static_cast<std::uint32_t>(place + lane);
        for (std::size_t sample = 0; sample < samples; ++sample) queue.x[sample][queue.size] = elements[sample][lane];
        ++queue.size;
    });
}

// ---- Gaussian ----

// `place`: of the first sample of `part` in the run that the queue is of. A group goes through three loops: with logarithm, square root and
// rounding in one, a chain is so long that too few pairs fit a processor's window.
template <class V, class Element>
[[gnu::noinline]] void half_gaussian_loop(const std::uint32_t* words, NoiseRun<Element> part, std::size_t place, GridScale grid,
                                          const HalfWordBound& bound, OpenQueue<Element, 2>& queue) {
    const HalfWordScale<V> scale(grid.s, bound);
    const auto g = V::set(grid.grid);
    alignas(64) float squares[kGroupPairs], limits[kGroupPairs], cosines[kGroupPairs], sines[kGroupPairs];
    for (std::size_t group = 0; group < part.groups; ++group, words += kGroupPairs) {
        const std::size_t start = group * kGroupSamples;
        HUSHVEC_TWO_AT_ONCE
        for (std::size_t i = 0; i < kGroupPairs; i += V::lanes) {
            FetchRows{part}(start + i);
            FetchRows{part}(start + i + kHalfGroup);
            const HalfRadius<V> radius = half_radius<V>(scale, V::load(words + i));
            V::store(squares + i, radius.square);
            V::store(limits + i, radius.limit);
        }
        HUSHVEC_TWO_AT_ONCE
        for (std::size_t i = 0; i < kGroupPairs; i += V::lanes) {
            const HalfNormals<V> normals = half_normals<V>(scale, V::load(words + i), {V::load(squares + i), V::load(limits + i)});
            V::store(cosines + i, normals.noise.cosine);
            V::store(sines + i, normals.noise.sine);
            V::store(limits + i, normals.limit);
        }
        for (std::size_t i = 0; i < kGroupPairs; i += V::lanes) {
            const std::size_t first = start + i, second = first + kHalfGroup;
            FetchOutput{part.y}(first);
            FetchOutput{part.y}(second);
            const Element* q = part.row_scale + group * part.scales.group + i * part.scales.element;
            const auto x_first = scaled_elements<V>(part.x + first, q), x_second = scaled_elements<V>(part.x + second, q + part.scales.half_group);
            const HalfRounding<V> cosine = round_half<V>(V::load(cosines + i), x_first), sine = round_half<V>(V::load(sines + i), x_second);
            V::store(part.y + first, V::mul(cosine.n, g));
            V::store(part.y + second, V::mul(sine.n, g));
            const auto open = V::not_less(V::larger_magnitude(cosine.d, sine.d), V::load(limits + i));
            if (V::any(open)) push_open<V>(queue, open, V::load(words + i), place + first, x_first, x_second);
        }
    }
}

// Level 1 on joined words, in full vectors, and the ladder behind it.
template <class V, class Words, class Element>
[[gnu::noinline]] void settle_open_pairs(const KeyStream& stream, const NoiseRun<Element>& run, GridScale grid, ErrorBound bound,
                                         OpenQueue<Element, 2>& queue) {
    const ExactScale<V> scale(grid.s, bound);
    Words refinement(stream, domain::kRefinement);
    for (std::size_t first = 0; first < queue.size; first += V::lanes) {
        const std::size_t here = std::min(V::lanes, queue.size - first);
        std::uint64_t pairs[V::lanes] = {};
        alignas(64) std::uint32_t more[V::lanes] = {}, radius_words[V::lanes] = {}, angle_words[V::lanes] = {};
        for (std::size_t i = 0; i < here; ++i) pairs[i] = pair_of_sample(run.first_group * kGroupSamples + queue.place[first + i]);
        refinement.at(pairs, here, more);
        for (std::size_t i = 0; i < here; ++i) {
            const JoinedPair joined = joined_gaussian(queue.word[first + i], more[i]);
            radius_words[i] = joined.first;
            angle_words[i] = joined.second;
        }
        const auto radius_word = V::load(radius_words), angle_word = V::load(angle_words);
        const auto x_cosine = load_elements<V>(queue.x[0] + first), x_sine = load_elements<V>(queue.x[1] + first);
        const auto rounding = round_gaussian_pair<V>(scale, normal_pair<V>(radius_word, angle_word), radius_word, angle_word, x_cosine, x_sine);
        OpenGaussianLanes lanes;
        V::store(lanes.index[0], rounding.n.cosine);
        V::store(lanes.index[1], rounding.n.sine);
        if (const std::uint32_t open = V::bits(rounding.open) & ((1u << here) - 1); open != 0) {
            spill_open_pair<V>(lanes, radius_word, angle_word, x_cosine, x_sine, rounding);
            for_lanes(open, [&](std::size_t lane) { settle_lanes(stream, pairs[lane] - lane, 1u << lane, grid.s, lanes); });
        }
        for (std::size_t i = 0; i < here; ++i) {
            float* y = run.y + queue.place[first + i];
            y[0] = lanes.index[0][i] * grid.grid;
            y[kHalfGroup] = lanes.index[1][i] * grid.grid;
        }
    }
    queue.size = 0;
}

// ---- Laplace ----

template <class V>
HUSHVEC_INLINE typename V::U32 upper_half(typename V::U32 word) { return V::template shift_right<16>(word); }
template <class V>
HUSHVEC_INLINE typename V::U32 lower_half(typename V::U32 word) { return V::bit_and(word, V::set(0xffffu)); }

template <class V, class Element>
[[gnu::noinline]] void half_laplace_loop(const std::uint32_t* words, NoiseRun<Element> part, std::size_t place, GridScale grid,
                                         const HalfWordBound& bound, OpenQueue<Element, 1>& queue) {
    const HalfWordScale<V> scale(grid.s, bound);
    const auto g = V::set(grid.grid);
    alignas(64) float noise[kGroupSamples], limits[kGroupSamples];
    for (std::size_t group = 0; group < part.groups; ++group, words += kGroupPairs) {
        const std::size_t start = group * kGroupSamples;
        const auto draw = [&](typename V::U32 half, std::size_t i) HUSHVEC_INLINE_LAMBDA {
            FetchRows{part}(start + i);
            const HalfLaplaces<V> laplaces = half_laplaces<V>(scale, half);
            V::store(noise + i, laplaces.noise);
            V::store(limits + i, laplaces.limit);
        };
        const auto round = [&](typename V::U32 half, std::size_t i, const Element* q) HUSHVEC_INLINE_LAMBDA {
            FetchOutput{part.y}(start + i);
            const auto x = scaled_elements<V>(part.x + start + i, q);
            const HalfRounding<V> rounding = round_half<V>(V::load(noise + i), x);
            V::store(part.y + start + i, V::mul(rounding.n, g));
            const auto open = V::not_less(V::magnitude(rounding.d), V::load(limits + i));
            if (V::any(open)) push_open<V>(queue, open, half, place + start + i, x);
        };
        for (std::size_t i = 0; i < kGroupPairs; i += V::lanes) {
            const auto word = V::load(words + i);
            draw(upper_half<V>(word), i);
            draw(lower_half<V>(word), i + kHalfGroup);
        }
        for (std::size_t i = 0; i < kGroupPairs; i += V::lanes) {
            const auto word = V::load(words + i);
            const Element* q = part.row_scale + group * part.scales.group + i * part.scales.element;
            round(upper_half<V>(word), i, q);
            round(lower_half<V>(word), i + kHalfGroup, q + part.scales.half_group);
        }
    }
}

template <class V, class Words, class Element>
[[gnu::noinline]] void settle_open_samples(const KeyStream& stream, const NoiseRun<Element>& run, GridScale grid, ErrorBound bound,
                                           OpenQueue<Element, 1>& queue) {
    const ExactScale<V> scale(grid.s, bound);
    Words refinement(stream, domain::kRefinement);
    for (std::size_t first = 0; first < queue.size; first += V::lanes) {
        const std::size_t here = std::min(V::lanes, queue.size - first);
        std::uint64_t samples[V::lanes] = {}, pairs[V::lanes] = {};
        alignas(64) std::uint32_t more[V::lanes] = {}, words[V::lanes] = {};
        for (std::size_t i = 0; i < here; ++i) {
            samples[i] = run.first_group * kGroupSamples + queue.place[first + i];
            pairs[i] = pair_of_sample(samples[i]);
        }
        refinement.at(pairs, here, more);
        for (std::size_t i = 0; i < here; ++i) {
            const bool is_first = samples[i] % kGroupSamples < kHalfGroup;
            words[i] = joined_laplace(queue.word[first + i], is_first ? more[i] >> 16 : more[i] & 0xffffu);
        }
        const auto word = V::load(words);
        const auto x = load_elements<V>(queue.x[0] + first);
        const auto rounding = round_laplace<V>(scale, word, x);
        OpenLaplaceLanes lanes;
        V::store(lanes.index, rounding.n);
        if (const std::uint32_t open = V::bits(rounding.open) & ((1u << here) - 1); open != 0) {
            V::store(lanes.word, word);
            x.store(lanes.x);
            for_lanes(open, [&](std::size_t lane) { settle_lanes(stream, samples[lane] - lane, 1u << lane, grid.s, lanes); });
        }
        for (std::size_t i = 0; i < here; ++i) run.y[queue.place[first + i]] = lanes.index[i] * grid.grid;
    }
    queue.size = 0;
}

// ---- runs ----

// Runs `loop` on the words of the run's pairs and `settle` on what it leaves open.
template <class Words, class Element, std::size_t samples, class Loop, class Settle>
HUSHVEC_INLINE void half_word_run(const KeyStream& stream, const NoiseRun<Element>& whole, Loop loop, Settle settle) {
    OpenQueue<Element, samples> queue;
    for (std::size_t done = 0; done < whole.groups; done += kMostGroupsOfQueue) {
        const NoiseRun<Element> run = part_of_run(whole, whole.first_group + done, std::min(kMostGroupsOfQueue, whole.groups - done));
        for_half_words_of_groups<Words>(stream, run.first_group, run.groups, [&](const std::uint32_t* words, std::uint64_t group, std::size_t groups) {
            loop(words, part_of_run(run, group, groups), static_cast<std::size_t>(group - run.first_group) * kGroupSamples, queue);
            if (queue.size >= queue.kFull) settle(run, queue);
        });
        settle(run, queue);
    }
}

template <class V, class Words, class Element>
void half_gaussian_run(const KeyStream& stream, const NoiseRun<Element>& run, GridScale grid, ErrorBound bound) {
    half_word_run<Words, Element, 2>(
        stream, run,
        [&](const std::uint32_t* words, const NoiseRun<Element>& part, std::size_t place, auto& queue) {
            half_gaussian_loop<V>(words, part, place, grid, kHalfGaussianBound, queue);
        },
        [&](const NoiseRun<Element>& part, auto& queue) { settle_open_pairs<V, Words>(stream, part, grid, bound, queue); });
}

template <class V, class Words, class Element>
void half_laplace_run(const KeyStream& stream, const NoiseRun<Element>& run, GridScale grid, ErrorBound bound) {
    half_word_run<Words, Element, 1>(
        stream, run,
        [&](const std::uint32_t* words, const NoiseRun<Element>& part, std::size_t place, auto& queue) {
            half_laplace_loop<V>(words, part, place, grid, kHalfLaplaceBound, queue);
        },
        [&](const NoiseRun<Element>& part, auto& queue) { settle_open_samples<V, Words>(stream, part, grid, bound, queue); });
}

}  // namespace hushvec
