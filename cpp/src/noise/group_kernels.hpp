// Kernels over groups of 256 samples: key stream, noise-only fills, float-grade and exact noise on rows.
//
// A cipher makes the words of some groups, then a loop turns them into noise. The loop is a function of its own, shared by all ciphers:
// no vector register survives a call, so beside a cipher's call its constants would lie in memory.
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

// The words of consecutive groups of one call, in the order of their samples (docs/format.md section 2).
struct WordsOfGroups {
    const std::uint32_t* words;
    std::uint64_t first_group;
    std::size_t groups;

    HUSHVEC_INLINE std::uint64_t sample(std::size_t i) const { return first_group * kGroupSamples + i; }
    HUSHVEC_INLINE WordsOfGroups one(std::size_t group) const { return {words + group * kGroupSamples, first_group + group, 1}; }
};

// Calls visit(words of some groups, how many samples came before them). Words is ChaChaLanes<V>, or AesWords, which calls the
// implementation in use.
template <class Words, class Visit>
HUSHVEC_INLINE void for_words_of_groups(const KeyStream& stream, std::uint64_t first_group, std::size_t groups, Visit visit) {
    constexpr std::size_t kAtOnce = Words::groups_at_once;
    alignas(64) std::uint32_t words[kAtOnce * kGroupSamples];
    Words cipher(stream, domain::kMain);
    for (std::size_t done = 0; done < groups; done += kAtOnce) {
        const std::size_t here = groups - done < kAtOnce ? groups - done : kAtOnce;
        cipher.groups(first_group + done, here, words);
        visit(WordsOfGroups{words, first_group + done, here}, done * kGroupSamples);
    }
}

// A vector of pairs: the first of them is pair `pair` of the call, and its samples are `first` and `second` of the words at hand.
template <class V>
struct PairLanes {
    std::uint64_t pair;
    std::size_t first, second;
    std::size_t group, lane;   // of the first pair, among the groups at hand and within its group
    typename V::U32 radius_word, angle_word;
    typename V::F32 radius;

    HUSHVEC_INLINE NormalPair<V> normals() const { return normal_pair_of_radius<V>(radius, angle_word); }
};

// Calls visit(PairLanes) for all pairs, a group at a time. The logarithms of a group come first: with them in the same loop as the rest,
// one chain is so long that too few pairs fit a processor's window to keep its units busy. Their loop has few loads, so it calls
// fetch(sample at hand) for what comes next in memory. Where both rows and output are to be fetched, it leaves the output to `visit`:
// more requests at a time than the first-level cache can have under way would stop it.
template <class V, class Fetch, class Visit>
HUSHVEC_INLINE void for_pairs(const WordsOfGroups& groups, const Fetch& fetch, const Visit& visit) {
    alignas(64) float squares[kHalfGroup];
    for (std::size_t group = 0; group < groups.groups; ++group) {
        const std::size_t start = group * kGroupSamples;
        const std::uint32_t* words = groups.words + start;
        HUSHVEC_TWO_AT_ONCE
        for (std::size_t i = 0; i < kHalfGroup; i += V::lanes) {
            fetch(start + i);
            fetch(start + i + kHalfGroup);
            V::store(squares + i, minus_two_log<V>(V::load(words + i)));
        }
        HUSHVEC_TWO_AT_ONCE
        for (std::size_t i = 0; i < kHalfGroup; i += V::lanes) {
            visit(PairLanes<V>{(groups.first_group + group) * kGroupPairs + i, start + i, start + i + kHalfGroup, group, i, V::load(words + i),
                               V::load(words + i + kHalfGroup), V::sqrt(V::load(squares + i))});
        }
    }
}

// Calls visit(lanes of words, the first one's number among the words at hand) for all words.
template <class V, class Fetch, class Visit>
HUSHVEC_INLINE void for_words(const WordsOfGroups& groups, const Fetch& fetch, const Visit& visit) {
    for (std::size_t group = 0; group < groups.groups; ++group) {
        const std::size_t start = group * kGroupSamples;
        HUSHVEC_TWO_AT_ONCE
        for (std::size_t i = start; i < start + kGroupSamples; i += V::lanes) {
            fetch(i);
            visit(V::load(groups.words + i), i);
        }
    }
}

// Fetches the array that a loop writes, one page ahead, where hardware prefetchers stop.
struct FetchOutput {
    static constexpr std::size_t kBytesAhead = 4096;
    const float* out;

    HUSHVEC_INLINE void operator()(std::size_t i) const { prefetch_to_write(out + i, kBytesAhead); }
};

template <class V, class Words>
void keystream(const KeyStream& stream, std::uint64_t domain_id, std::uint64_t first_group, std::size_t groups, std::uint32_t* out) {
    Words(stream, domain_id).groups(first_group, groups, out);
}

// ---- noise only ----

// sigma Z for one vector of pairs, added to x, for radius words from kTailWord on.
template <class V>
HUSHVEC_INLINE LanePair<V> gaussian_plus_body(typename V::F32 sigma, NormalPair<V> normal, typename V::U32 angle_word, LanePair<V> x) {
    const auto r = V::flip_sign(V::mul(normal.radius, sigma), angle_word);
    return {V::multiply_add(r, normal.cosine, x.cosine), V::multiply_add(r, normal.sine, x.sine)};
}

template <class V>
HUSHVEC_INLINE typename V::F32 laplace_plus_body(typename V::F32 half_scale, typename V::U32 word, typename V::F32 x) {
    return V::add(with_laplace_sign<V>(V::mul(minus_two_log<V>(word), half_scale), word), x);
}

// For every word: the tail beyond the first word's resolution is worked out in float64.
// Source is what resolve_gaussian_tail takes: a KeyStream on the CPU.
template <class V, class Source>
HUSHVEC_INLINE LanePair<V> gaussian_plus(const Source& stream, std::uint64_t first_pair, float sigma, typename V::F32 sigma_lanes,
                                         NormalPair<V> normal, typename V::U32 radius_word, typename V::U32 angle_word, LanePair<V> x) {
    const LanePair<V> y = gaussian_plus_body<V>(sigma_lanes, normal, angle_word, x);
    const auto tail = V::greater(V::set(kTailWord), radius_word);
    if (V::any(tail)) [[unlikely]]
        return resolve_gaussian_tail<V>(stream, first_pair, V::bits(tail), sigma, radius_word, angle_word, x, y);
    return y;
}

template <class V, class Source>
HUSHVEC_INLINE typename V::F32 laplace_plus(const Source& stream, std::uint64_t sample, float scale, typename V::F32 half_scale,
                                            typename V::U32 word, typename V::F32 x) {
    const auto y = laplace_plus_body<V>(half_scale, word, x);
    const auto tail = V::greater(V::set(kTailWord), word);
    if (V::any(tail)) [[unlikely]]
        return resolve_laplace_tail<V>(stream, sample, V::bits(tail), scale, word, x, y);
    return y;
}

template <class V>
[[gnu::noinline]] void fill_gaussian_loop(const KeyStream& stream, const WordsOfGroups& groups, float sigma, float* out) {
    const auto sigma_lanes = V::set(sigma);
    const LanePair<V> zero = {V::set(0.0f), V::set(0.0f)};
    for_pairs<V>(groups, FetchOutput{out}, [&](const PairLanes<V>& at) HUSHVEC_INLINE_LAMBDA {
        const auto y = gaussian_plus<V>(stream, at.pair, sigma, sigma_lanes, at.normals(), at.radius_word, at.angle_word, zero);
        V::store(out + at.first, y.cosine);
        V::store(out + at.second, y.sine);
    });
}

template <class V>
[[gnu::noinline]] void fill_laplace_loop(const KeyStream& stream, const WordsOfGroups& groups, float scale, float* out) {
    const auto half_scale = V::set(0.5f * scale);
    for_words<V>(groups, FetchOutput{out}, [&](typename V::U32 word, std::size_t i) HUSHVEC_INLINE_LAMBDA {
        V::store(out + i, laplace_plus<V>(stream, groups.sample(i), scale, half_scale, word, V::set(0.0f)));
    });
}

template <class V, class Words>
void fill_gaussian(const KeyStream& stream, float sigma, std::uint64_t first_group, std::size_t groups, float* out) {
    for_words_of_groups<Words>(stream, first_group, groups, [&](const WordsOfGroups& words, std::size_t before) {
        fill_gaussian_loop<V>(stream, words, sigma, out + before);
    });
}

template <class V, class Words>
void fill_laplace(const KeyStream& stream, float scale, std::uint64_t first_group, std::size_t groups, float* out) {
    for_words_of_groups<Words>(stream, first_group, groups, [&](const WordsOfGroups& words, std::size_t before) {
        fill_laplace_loop<V>(stream, words, scale, out + before);
    });
}

// ---- noise on rows ----

// q of a vector; of several in step the same for all, or one behind the other.
template <class V, class Element>
HUSHVEC_INLINE auto load_scales(const Element* row_scale, std::size_t step) {
    if constexpr (V::lanes > kRunScales) return V::load(row_scale, step);
    else return V::load(row_scale);
}
template <class V>
HUSHVEC_INLINE Float32Elements<V> scaled_elements(const float* x, const float* row_scale, std::size_t step = 1) {
    return {V::mul(V::load(x), load_scales<V>(row_scale, step))};
}
template <class V>
HUSHVEC_INLINE Float64Elements<V> scaled_elements(const double* x, const double* row_scale, std::size_t step = 1) {
    return {V::mul(V::load(x), load_scales<V>(row_scale, step))};
}

// Samples of a run, clipped: those of a vector of pairs, and sample `i` with those in the lanes behind it.
template <class V, class Element>
HUSHVEC_INLINE auto first_elements(const NoiseRun<Element>& run, const PairLanes<V>& at) {
    return scaled_elements<V>(run.x + at.first, run.row_scale + at.group * run.scales.group + at.lane * run.scales.element);
}
template <class V, class Element>
HUSHVEC_INLINE auto second_elements(const NoiseRun<Element>& run, const PairLanes<V>& at) {
    return scaled_elements<V>(run.x + at.second,
                              run.row_scale + at.group * run.scales.group + run.scales.half_group + at.lane * run.scales.element);
}
template <class V, class Element>
HUSHVEC_INLINE auto elements_of_run(const NoiseRun<Element>& run, std::size_t i) {
    const ScaleLayout& scales = run.scales;
    const std::size_t group = i / kGroupSamples, half = i / kHalfGroup % 2;
    return scaled_elements<V>(run.x + i, run.row_scale + group * scales.group + half * scales.half_group + i % kHalfGroup * scales.element);
}

// The rows that come next.
template <class Element>
struct FetchRows {
    const NoiseRun<Element>& run;

    HUSHVEC_INLINE void operator()(std::size_t i) const { prefetch_to_read(run.x + i, run.x_bytes_ahead); }
};

// The rows that come next, and the output.
template <class Element>
struct FetchRun {
    const NoiseRun<Element>& run;

    HUSHVEC_INLINE void operator()(std::size_t i) const {
        FetchRows<Element>{run}(i);
        FetchOutput{run.y}(i);
    }
};

// The part of a run from `group` on.
template <class Element>
HUSHVEC_INLINE NoiseRun<Element> part_of_run(const NoiseRun<Element>& run, std::uint64_t group, std::size_t groups) {
    const std::size_t before = static_cast<std::size_t>(group - run.first_group);
    NoiseRun<Element> part = run;
    part.first_group = group;
    part.groups = groups;
    part.x += before * kGroupSamples;
    part.row_scale += before * run.scales.group;
    part.y += before * kGroupSamples;
    return part;
}

// Runs `kernel` on the words of some groups and their part of the run.
template <class Words, class Element, class Kernel>
HUSHVEC_INLINE void for_words_of_run(const KeyStream& stream, const NoiseRun<Element>& run, Kernel kernel) {
    for_words_of_groups<Words>(stream, run.first_group, run.groups, [&](const WordsOfGroups& words, std::size_t) {
        kernel(words, part_of_run(run, words.first_group, words.groups));
    });
}

template <class V, class Element>
[[gnu::noinline]] void exact_gaussian_loop(const KeyStream& stream, const WordsOfGroups& groups, NoiseRun<Element> run, GridScale grid,
                                           ErrorBound bound) {
    const ExactScale<V> scale(grid.s, bound);
    const auto g = V::set(grid.grid);
    for_pairs<V>(groups, FetchRows{run}, [&](const PairLanes<V>& at) HUSHVEC_INLINE_LAMBDA {
        FetchOutput{run.y}(at.first);
        FetchOutput{run.y}(at.second);
        const auto x_first = first_elements<V>(run, at);
        const auto x_second = second_elements<V>(run, at);
        const auto n = exact_gaussian_pair<V>(stream, at.pair, scale, at.normals(), at.radius_word, at.angle_word, x_first, x_second);
        V::store(run.y + at.first, V::mul(n.cosine, g));
        V::store(run.y + at.second, V::mul(n.sine, g));
    });
}

template <class V, class Element>
[[gnu::noinline]] void exact_laplace_loop(const KeyStream& stream, const WordsOfGroups& groups, NoiseRun<Element> run, GridScale grid,
                                          ErrorBound bound) {
    const ExactScale<V> scale(grid.s, bound);
    const auto g = V::set(grid.grid);
    for_words<V>(groups, FetchRun{run}, [&](typename V::U32 word, std::size_t i) HUSHVEC_INLINE_LAMBDA {
        const auto n = exact_laplace<V>(stream, groups.sample(i), scale, word, elements_of_run<V>(run, i));
        V::store(run.y + i, V::mul(n, g));
    });
}

template <class V>
[[gnu::noinline]] void add_gaussian_loop(const KeyStream& stream, const WordsOfGroups& groups, NoiseRun<float> run, float sigma) {
    const auto sigma_lanes = V::set(sigma);
    for_pairs<V>(groups, FetchRows{run}, [&](const PairLanes<V>& at) HUSHVEC_INLINE_LAMBDA {
        FetchOutput{run.y}(at.first);
        FetchOutput{run.y}(at.second);
        const LanePair<V> x = {first_elements<V>(run, at).value, second_elements<V>(run, at).value};
        const auto y = gaussian_plus<V>(stream, at.pair, sigma, sigma_lanes, at.normals(), at.radius_word, at.angle_word, x);
        V::store(run.y + at.first, y.cosine);
        V::store(run.y + at.second, y.sine);
    });
}

template <class V>
[[gnu::noinline]] void add_laplace_loop(const KeyStream& stream, const WordsOfGroups& groups, NoiseRun<float> run, float scale) {
    const auto half_scale = V::set(0.5f * scale);
    for_words<V>(groups, FetchRun{run}, [&](typename V::U32 word, std::size_t i) HUSHVEC_INLINE_LAMBDA {
        V::store(run.y + i, laplace_plus<V>(stream, groups.sample(i), scale, half_scale, word, elements_of_run<V>(run, i).value));
    });
}

template <class V, class Words, class Element>
void exact_gaussian_run(const KeyStream& stream, const NoiseRun<Element>& run, GridScale grid, ErrorBound bound) {
    for_words_of_run<Words>(stream, run, [&](const WordsOfGroups& words, const NoiseRun<Element>& part) {
        exact_gaussian_loop<V>(stream, words, part, grid, bound);
    });
}

template <class V, class Words, class Element>
void exact_laplace_run(const KeyStream& stream, const NoiseRun<Element>& run, GridScale grid, ErrorBound bound) {
    for_words_of_run<Words>(stream, run, [&](const WordsOfGroups& words, const NoiseRun<Element>& part) {
        exact_laplace_loop<V>(stream, words, part, grid, bound);
    });
}

template <class V, class Words>
void add_gaussian_run(const KeyStream& stream, const NoiseRun<float>& run, float sigma) {
    for_words_of_run<Words>(stream, run, [&](const WordsOfGroups& words, const NoiseRun<float>& part) {
        add_gaussian_loop<V>(stream, words, part, sigma);
    });
}

template <class V, class Words>
void add_laplace_run(const KeyStream& stream, const NoiseRun<float>& run, float scale) {
    for_words_of_run<Words>(stream, run, [&](const WordsOfGroups& words, const NoiseRun<float>& part) {
        add_laplace_loop<V>(stream, words, part, scale);
    });
}

}  // namespace hushvec
