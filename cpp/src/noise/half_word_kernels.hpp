// Kernels of exact noise of version 3: level 0 over groups of samples, and levels 1 to 4 on what it leaves open, in full vectors.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "dispatch/kernels.hpp"
#include "hushvec/keystream.hpp"
#include "lanes/in_step.hpp"
#include "noise/exact_round.hpp"
#include "noise/group_kernels.hpp"
#include "noise/half_words.hpp"
#include "noise/joined_words.hpp"
#include "noise/open_queue.hpp"
#include "noise/settle_lanes.hpp"

namespace hushvec {

HUSHVEC_INLINE constexpr std::uint64_t pair_of_sample(std::uint64_t sample) {
    return sample / kGroupSamples * kGroupPairs + sample % kGroupPairs;
}

// The first sample of a pair of a run.
HUSHVEC_INLINE constexpr std::size_t pair_start(std::size_t pair) { return pair / kGroupPairs * kGroupSamples + pair % kGroupPairs; }

// Calls visit(words of pairs, first group of samples, groups) for groups [first_group, first_group + groups), some at a time.
template <class Words, class Visit>
HUSHVEC_INLINE void for_half_words_of_groups(const KeyStream& stream, std::uint64_t first_group, std::size_t groups, Visit visit) {
    constexpr std::size_t kAtOnce = Words::groups_at_once;   // a group of words makes two groups of samples
    alignas(64) std::uint32_t words[kAtOnce * kGroupSamples];
    Words cipher(stream, domain::kMain);
    const std::uint64_t end = first_group + groups;
    for (std::uint64_t group = first_group; group < end;) {
        const std::uint64_t first_words = group / 2;
        const auto here = static_cast<std::size_t>(std::min<std::uint64_t>(kAtOnce, (end + 1) / 2 - first_words));
        cipher.groups(first_words, here, words);
        const std::uint64_t last = std::min<std::uint64_t>(end, 2 * (first_words + here));
        visit(words + group % 2 * kGroupPairs, group, static_cast<std::size_t>(last - group));
        group = last;
    }
}

template <class V>
HUSHVEC_INLINE Float32Elements<V> load_elements(const float* x) { return {V::load(x)}; }
template <class V>
HUSHVEC_INLINE Float64Elements<V> load_elements(const double* x) { return {V::load(x)}; }

inline constexpr std::size_t kOpenBits = 64;   // flags of open pairs or samples that fill one register

// What a loop found open, by its place in the run, until it goes into the queue. Most often 64 flags have one bit or none, which nobody can
// predict, and a wrong guess costs more than to fill two places without asking.
class OpenPlaces {
public:
    HUSHVEC_INLINE void add(std::uint64_t open, std::size_t first) {
        const std::size_t count = static_cast<std::size_t>(std::popcount(open));
        const auto put = [&](std::size_t place) HUSHVEC_INLINE_LAMBDA {
            places_[place] = static_cast<std::uint32_t>(first + static_cast<std::size_t>(std::countr_zero(open | std::uint64_t{1} << 63)));
            open &= open - 1;
        };
        put(size_);
        put(size_ + 1);
        if (count > 2) [[unlikely]] {
            for (std::size_t i = 2; i < count; ++i) put(size_ + i);
        }
        size_ += count;
    }

    HUSHVEC_INLINE std::size_t size() const { return size_; }

    // Calls fill(place in the queue, place in the run) for all of them.
    template <class Element, class Fill>
    HUSHVEC_INLINE void move_to(OpenQueue<Element>& queue, Fill fill) {
        for (std::size_t i = 0; i < size_; ++i) fill(queue.size + i, std::size_t{places_[i]});
        queue.size += size_;
        size_ = 0;
    }

private:
    std::uint32_t places_[OpenQueue<float>::kRoom];
    std::size_t size_ = 0;
};

// Moves what is behind the first `count` to the front.
template <class Element>
HUSHVEC_INLINE void drop_settled(OpenQueue<Element>& queue, std::size_t count) {
    for (std::size_t i = count; i < queue.size; ++i) {
        queue.word[i - count] = queue.word[i];
        queue.sample[i - count] = queue.sample[i];
        queue.y[i - count] = queue.y[i];
        for (auto& x : queue.x) x[i - count] = x[i];
    }
    queue.size -= count;
}

// Whether y is x itself: clipped elements of open samples are read after the group is written, so it is written elsewhere first.
template <class Element>
HUSHVEC_INLINE bool writes_over_rows(const NoiseRun<Element>& run) {
    return static_cast<const void*>(run.x) == static_cast<const void*>(run.y);
}

// Calls body(first) for `count` elements, Lanes at a time: side by side if these are vectors, which compilers do not do unasked, and one after
// the other if they are several in step.
template <class V, class Lanes, class Body>
HUSHVEC_INLINE void for_lanes_of(std::size_t count, Body body) {
    if constexpr (Lanes::lanes == V::lanes) {
        HUSHVEC_TWO_AT_ONCE
        for (std::size_t i = 0; i < count; i += Lanes::lanes) body(i);
    } else {
        HUSHVEC_ONE_AT_A_TIME
        for (std::size_t i = 0; i < count; i += Lanes::lanes) body(i);
    }
}

// Calls fetch(sample) for each vector of as many lanes.
template <class V, class Fetch>
HUSHVEC_INLINE void fetch_vectors(std::size_t lanes, std::size_t first, const Fetch& fetch) {
    for (std::size_t lane = 0; lane < lanes; lane += V::lanes) fetch(first + lane);
}

// ---- Gaussian ----

// Makes groups until the queue is full, and returns how many. A group goes through loops: with logarithm, square root, polynomials and rounding
// in one, a chain is so long that too few pairs fit a processor's window. Sixteen lanes have registers for angles and rounding in one loop,
// fewer lanes for each of them alone.
template <class V, class Element>
[[gnu::noinline]] std::size_t half_gaussian_loop(const std::uint32_t* words, NoiseRun<Element> part, GridScale grid, const HalfWordBound& bound,
                                                 OpenQueue<Element>& queue) {
    constexpr bool kAnglesApart = V::lanes < 16;
    using Radii = Abreast<V, 4>;
    using Pairs = Abreast<V, 2>;
    const HalfWordScale<Radii> scale(grid.s, bound);
    const auto g = Pairs::set(grid.grid);
    alignas(64) float radii[kGroupPairs], limits[kGroupPairs], cosines[kAnglesApart ? kGroupPairs : 1], sines[kAnglesApart ? kGroupPairs : 1];
    alignas(64) float over_rows[kGroupSamples];
    OpenPlaces open_pairs;
    const auto queue_open = [&] {
        open_pairs.move_to(queue, [&](std::size_t place, std::size_t pair) HUSHVEC_INLINE_LAMBDA {
            const std::size_t of_group = pair % kGroupPairs, sample = pair_start(pair);
            const Element* const q = part.row_scale + pair / kGroupPairs * part.scales.group + of_group * part.scales.element;
            queue.word[place] = words[pair];
            queue.sample[place] = part.first_group * kGroupSamples + sample;
            queue.y[place] = part.y + sample;
            queue.x[0][place] = part.x[sample] * *q;
            queue.x[1][place] = part.x[sample + kHalfGroup] * q[part.scales.half_group];
        });
    };
    std::size_t group = 0;
    for (; group < part.groups && queue.size + open_pairs.size() < queue.kFull; ++group) {
        const std::size_t start = group * kGroupSamples;
        const std::uint32_t* const here = words + group * kGroupPairs;
        for_lanes_of<V, Radii>(kGroupPairs, [&](std::size_t i) HUSHVEC_INLINE_LAMBDA {
            fetch_vectors<V>(Radii::lanes, start + i, FetchRows{part});
            fetch_vectors<V>(Radii::lanes, start + i + kHalfGroup, FetchRows{part});
            const HalfRadius<Radii> radius = half_radius<Radii>(scale, Radii::load(here + i));
            Radii::store(radii + i, radius.signed_value);
            Radii::store(limits + i, radius.limit);
        });
        if constexpr (kAnglesApart) {
            for_lanes_of<V, V>(kGroupPairs, [&](std::size_t i) HUSHVEC_INLINE_LAMBDA {
                const LanePair<V> unit = cosine_and_sine_of_half<V>(V::load(here + i));
                V::store(cosines + i, unit.cosine);
                V::store(sines + i, unit.sine);
            });
        }
        float* const y = writes_over_rows(part) ? over_rows : part.y + start;
        const Element* const q = part.row_scale + group * part.scales.group;
        for (std::size_t half = 0; half < kGroupPairs; half += kOpenBits) {
            std::uint64_t open = 0;
            for_lanes_of<V, Pairs>(kOpenBits, [&](std::size_t bit) HUSHVEC_INLINE_LAMBDA {
                const std::size_t first = half + bit, second = first + kHalfGroup;
                fetch_vectors<V>(Pairs::lanes, first, FetchOutput{part.y + start});
                fetch_vectors<V>(Pairs::lanes, second, FetchOutput{part.y + start});
                const Element* const q_first = q + first * part.scales.element;
                const auto x_first = scaled_elements<Pairs>(part.x + start + first, q_first, part.scales.element);
                const auto x_second = scaled_elements<Pairs>(part.x + start + second, q_first + part.scales.half_group, part.scales.element);
                const auto r = Pairs::load(radii + first);
                LanePair<Pairs> unit;
                if constexpr (kAnglesApart) {
                    unit = {V::load(cosines + first), V::load(sines + first)};
                } else {
                    unit = cosine_and_sine_of_half<Pairs>(Pairs::load(here + first));
                }
                const HalfRounding<Pairs> cosine = round_half<Pairs>(r, unit.cosine, x_first), sine = round_half<Pairs>(r, unit.sine, x_second);
                Pairs::store(y + first, Pairs::mul(cosine.n, g));
                Pairs::store(y + second, Pairs::mul(sine.n, g));
                open |= std::uint64_t{Pairs::bits(Pairs::not_less(Pairs::larger_magnitude(cosine.d, sine.d), Pairs::load(limits + first)))} << bit;
            });
            open_pairs.add(open, group * kGroupPairs + half);
        }
        if (y == over_rows) {
            queue_open();
            std::copy_n(over_rows, kGroupSamples, part.y + start);
        }
    }
    queue_open();
    return group;
}

// Level 1 on joined words, in full vectors, and the ladder behind it, for the first `count` of the queue.
template <class V, class Words, class Element>
[[gnu::noinline]] void settle_open_pairs(const KeyStream& stream, OpenQueue<Element>& queue, std::size_t count, GridScale grid, ErrorBound bound) {
    const ExactScale<V> scale(grid.s, bound);
    Words refinement(stream, domain::kRefinement);
    for (std::size_t first = 0; first < count; first += V::lanes) {
        const std::size_t here = std::min(V::lanes, count - first);
        std::uint64_t pairs[V::lanes] = {};
        alignas(64) std::uint32_t more[V::lanes] = {}, radius_words[V::lanes] = {}, angle_words[V::lanes] = {};
        for (std::size_t i = 0; i < here; ++i) pairs[i] = pair_of_sample(queue.sample[first + i]);
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
            float* y = queue.y[first + i];
            y[0] = lanes.index[0][i] * grid.grid;
            y[kHalfGroup] = lanes.index[1][i] * grid.grid;
        }
    }
    drop_settled(queue, count);
}

// ---- Laplace ----

template <class V>
HUSHVEC_INLINE typename V::U32 upper_half(typename V::U32 word) { return V::template shift_right<16>(word); }
template <class V>
HUSHVEC_INLINE typename V::U32 lower_half(typename V::U32 word) { return V::bit_and(word, V::set(0xffffu)); }

template <class V, class Element>
[[gnu::noinline]] std::size_t half_laplace_loop(const std::uint32_t* words, NoiseRun<Element> part, GridScale grid, const HalfWordBound& bound,
                                                OpenQueue<Element>& queue) {
    using Lanes = Abreast<V, 2>;
    const HalfWordScale<Lanes> scale(grid.s, bound);
    const auto g = Lanes::set(grid.grid);
    alignas(64) float noise[kGroupSamples], limits[kGroupSamples], over_rows[kGroupSamples];
    OpenPlaces open_samples;
    const auto queue_open = [&] {
        open_samples.move_to(queue, [&](std::size_t place, std::size_t sample) HUSHVEC_INLINE_LAMBDA {
            const std::size_t group = sample / kGroupSamples, pair = sample % kHalfGroup;
            const bool is_first = sample % kGroupSamples < kHalfGroup;
            const Element* const q = part.row_scale + group * part.scales.group + (is_first ? 0 : part.scales.half_group);
            const std::uint32_t word = words[group * kGroupPairs + pair];
            queue.word[place] = is_first ? word >> 16 : word & 0xffffu;
            queue.sample[place] = part.first_group * kGroupSamples + sample;
            queue.y[place] = part.y + sample;
            queue.x[0][place] = part.x[sample] * q[pair * part.scales.element];
        });
    };
    std::size_t group = 0;
    for (; group < part.groups && queue.size + open_samples.size() < queue.kFull; ++group) {
        const std::size_t start = group * kGroupSamples;
        const std::uint32_t* const here = words + group * kGroupPairs;
        const auto draw = [&](typename Lanes::U32 half, std::size_t i) HUSHVEC_INLINE_LAMBDA {
            fetch_vectors<V>(Lanes::lanes, start + i, FetchRows{part});
            const HalfLaplaces<Lanes> laplaces = half_laplaces<Lanes>(scale, half);
            Lanes::store(noise + i, laplaces.noise);
            Lanes::store(limits + i, laplaces.limit);
        };
        for (std::size_t i = 0; i < kGroupPairs; i += Lanes::lanes) {
            const auto word = Lanes::load(here + i);
            draw(upper_half<Lanes>(word), i);
            draw(lower_half<Lanes>(word), i + kHalfGroup);
        }
        float* const y = writes_over_rows(part) ? over_rows : part.y + start;
        for (std::size_t half = 0; half < kGroupSamples; half += kHalfGroup) {
            const Element* const q = part.row_scale + group * part.scales.group + (half == 0 ? 0 : part.scales.half_group);
            for (std::size_t begin = 0; begin < kHalfGroup; begin += kOpenBits) {
                std::uint64_t open = 0;
                for (std::size_t bit = 0; bit < kOpenBits; bit += Lanes::lanes) {
                    const std::size_t i = half + begin + bit;
                    fetch_vectors<V>(Lanes::lanes, i, FetchOutput{part.y + start});
                    const auto x = scaled_elements<Lanes>(part.x + start + i, q + (begin + bit) * part.scales.element, part.scales.element);
                    const HalfRounding<Lanes> rounding = round_half<Lanes>(Lanes::load(noise + i), x);
                    Lanes::store(y + i, Lanes::mul(rounding.n, g));
                    open |= std::uint64_t{Lanes::bits(Lanes::not_less(Lanes::magnitude(rounding.d), Lanes::load(limits + i)))} << bit;
                }
                open_samples.add(open, start + half + begin);
            }
        }
        if (y == over_rows) {
            queue_open();
            std::copy_n(over_rows, kGroupSamples, part.y + start);
        }
    }
    queue_open();
    return group;
}

template <class V, class Words, class Element>
[[gnu::noinline]] void settle_open_samples(const KeyStream& stream, OpenQueue<Element>& queue, std::size_t count, GridScale grid, ErrorBound bound) {
    const ExactScale<V> scale(grid.s, bound);
    Words refinement(stream, domain::kRefinement);
    for (std::size_t first = 0; first < count; first += V::lanes) {
        const std::size_t here = std::min(V::lanes, count - first);
        const std::uint64_t* samples = queue.sample + first;
        std::uint64_t pairs[V::lanes] = {};
        alignas(64) std::uint32_t more[V::lanes] = {}, words[V::lanes] = {};
        for (std::size_t i = 0; i < here; ++i) pairs[i] = pair_of_sample(samples[i]);
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
        for (std::size_t i = 0; i < here; ++i) *queue.y[first + i] = lanes.index[i] * grid.grid;
    }
    drop_settled(queue, count);
}

// ---- runs ----

// Runs loop(words, part of the run) on the words of the run's pairs, and settles whole vectors where that fills the queue.
template <class V, class Words, class Element, class Loop, class Settle>
HUSHVEC_INLINE void half_word_run(const KeyStream& stream, const NoiseRun<Element>& run, const OpenQueue<Element>& queue, Loop loop, Settle settle) {
    for_half_words_of_groups<Words>(stream, run.first_group, run.groups, [&](const std::uint32_t* words, std::uint64_t group, std::size_t groups) {
        for (std::size_t done = 0; done < groups;) {
            done += loop(words + done * kGroupPairs, part_of_run(run, group + done, groups - done));
            if (queue.size >= queue.kFull) settle(queue.size / V::lanes * V::lanes);
        }
    });
}

template <class V, class Words, class Element>
void half_gaussian_run(const KeyStream& stream, const NoiseRun<Element>& run, GridScale grid, ErrorBound bound, OpenQueue<Element>& queue) {
    half_word_run<V, Words>(
        stream, run, queue,
        [&](const std::uint32_t* words, const NoiseRun<Element>& part) {
            return half_gaussian_loop<V>(words, part, grid, kHalfGaussianBound, queue);
        },
        [&](std::size_t count) { settle_open_pairs<V, Words>(stream, queue, count, grid, bound); });
}

template <class V, class Words, class Element>
void half_laplace_run(const KeyStream& stream, const NoiseRun<Element>& run, GridScale grid, ErrorBound bound, OpenQueue<Element>& queue) {
    half_word_run<V, Words>(
        stream, run, queue,
        [&](const std::uint32_t* words, const NoiseRun<Element>& part) {
            return half_laplace_loop<V>(words, part, grid, kHalfLaplaceBound, queue);
        },
        [&](std::size_t count) { settle_open_samples<V, Words>(stream, queue, count, grid, bound); });
}

// What runs left open.
template <class V, class Words, class Element>
void settle_gaussian(const KeyStream& stream, GridScale grid, ErrorBound bound, OpenQueue<Element>& queue) {
    settle_open_pairs<V, Words>(stream, queue, queue.size, grid, bound);
}

template <class V, class Words, class Element>
void settle_laplace(const KeyStream& stream, GridScale grid, ErrorBound bound, OpenQueue<Element>& queue) {
    settle_open_samples<V, Words>(stream, queue, queue.size, grid, bound);
}

}  // namespace hushvec
