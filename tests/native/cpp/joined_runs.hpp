// Runs of version 3 on words that the test chooses: by the kernel, and by level 1 and the ladder on joined words.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dispatch/dispatch.hpp"
#include "noise/error_bounds.hpp"
#include "noise/joined_words.hpp"
#include "noise/open_queue.hpp"

namespace hushvec::test {

// n of every sample of a run, from the words that its pairs' words and their refinements make.
struct JoinedRun {
    JoinedRun(const Kernels& kernels, const KeyStream& stream, std::uint64_t group, std::size_t groups)
        : first_group(group), pairs(groups * kGroupPairs), halves(pairs), radius(pairs), angle(pairs), samples(2 * pairs) {
        const std::uint64_t first = group / 2, of_words = (group + groups + 1) / 2 - first;
        std::vector<std::uint32_t> words(of_words * kGroupSamples), more(words.size());
        kernels.keystream(stream, domain::kMain, first, of_words, words.data());
        kernels.keystream(stream, domain::kRefinement, first, of_words, more.data());
        for (std::size_t p = 0; p < pairs; ++p) {
            const std::size_t at = group % 2 * kGroupPairs + p;
            const JoinedPair pair = joined_gaussian(words[at], more[at]), two = joined_laplaces(words[at], more[at]);
            halves[p] = words[at];
            radius[p] = pair.first;
            angle[p] = pair.second;
            samples[first_sample(p)] = two.first;
            samples[first_sample(p) + kHalfGroup] = two.second;
        }
    }

    static std::size_t first_sample(std::size_t pair) { return pair / kGroupPairs * kGroupSamples + pair % kGroupPairs; }

    std::vector<float> gaussian(const Kernels& kernels, const KeyStream& stream, const std::vector<double>& x, float s,
                                bool x_is_float32) const {
        std::vector<double> x_cosine(pairs), x_sine(pairs);
        for (std::size_t p = 0; p < pairs; ++p) {
            x_cosine[p] = x[first_sample(p)];
            x_sine[p] = x[first_sample(p) + kHalfGroup];
        }
        std::vector<std::int32_t> n_cosine(pairs), n_sine(pairs);
        const WordKernels& on_words = word_kernels_by_name(kernels.name);
        on_words.exact_gaussian_words(stream, first_group * kGroupPairs, radius.data(), angle.data(), x_cosine.data(), x_sine.data(),
                                      x_is_float32, pairs, s, kernels.gaussian_bound, n_cosine.data(), n_sine.data());
        std::vector<float> n(2 * pairs);
        for (std::size_t p = 0; p < pairs; ++p) {
            n[first_sample(p)] = static_cast<float>(n_cosine[p]);
            n[first_sample(p) + kHalfGroup] = static_cast<float>(n_sine[p]);
        }
        return n;
    }

    std::vector<float> laplace(const Kernels& kernels, const KeyStream& stream, const std::vector<double>& x, float s,
                               bool x_is_float32) const {
        std::vector<std::int32_t> n(x.size());
        const WordKernels& on_words = word_kernels_by_name(kernels.name);
        on_words.exact_laplace_words(stream, first_group * kGroupSamples, samples.data(), x.data(), x_is_float32, x.size(), s,
                                     kernels.laplace_bound, n.data());
        return std::vector<float>(n.begin(), n.end());
    }

    // X that put what level 0 finds between two integers, so that it leaves all pairs open.
    std::vector<double> undecided(const Kernels& kernels, float s) const {
        const std::vector<double> zero(2 * pairs);
        std::vector<float> n[2] = {std::vector<float>(pairs), std::vector<float>(pairs)}, d[2] = {n[0], n[1]}, limit(pairs);
        std::vector<std::uint8_t> open(pairs);
        const HalfRoundings out = {{n[0].data(), n[1].data()}, {d[0].data(), d[1].data()}, limit.data(), open.data()};
        word_kernels_by_name(kernels.name).half_gaussian_words(halves.data(), zero.data(), zero.data(), true, pairs, s, kHalfGaussianBound, out);
        std::vector<double> x(2 * pairs);
        for (std::size_t p = 0; p < pairs; ++p) {
            for (const std::size_t output : {0u, 1u}) x[first_sample(p) + output * kHalfGroup] = 0.5 - double{d[output][p]};
        }
        return x;
    }

    // The same of Laplace samples.
    std::vector<double> undecided_laplace(const Kernels& kernels, float s) const {
        const std::vector<double> zero(2 * pairs);
        std::vector<std::uint32_t> samples_halves(2 * pairs);
        for (std::size_t p = 0; p < pairs; ++p) {
            samples_halves[first_sample(p)] = halves[p] >> 16;
            samples_halves[first_sample(p) + kHalfGroup] = halves[p] & 0xffffu;
        }
        std::vector<float> n(2 * pairs), d(2 * pairs), limit(2 * pairs);
        std::vector<std::uint8_t> open(2 * pairs);
        const HalfRoundings out = {{n.data(), nullptr}, {d.data(), nullptr}, limit.data(), open.data()};
        word_kernels_by_name(kernels.name).half_laplace_words(samples_halves.data(), zero.data(), true, 2 * pairs, s, kHalfLaplaceBound, out);
        std::vector<double> x(2 * pairs);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.5 - double{d[i]};
        return x;
    }

    std::uint64_t first_group;
    std::size_t pairs;
    std::vector<std::uint32_t> halves, radius, angle, samples;
};

// In parts of one to three groups, with one queue.
template <class Element, class Kernel, class Settle>
std::vector<float> half_run(Kernel kernel, Settle settle, const KeyStream& stream, std::uint64_t first_group, const std::vector<Element>& x, float s,
                            ErrorBound bound) {
    alignas(64) Element ones[kRunScales];
    std::fill(ones, ones + kRunScales, Element{1});
    std::vector<float> y(x.size());
    OpenQueue<Element> queue;
    const std::size_t groups = x.size() / kGroupSamples;
    for (std::size_t group = 0, here = 0; group < groups; group += here) {
        here = std::min(group % 3 + 1, groups - group);
        const std::size_t first = group * kGroupSamples;
        kernel(stream, NoiseRun<Element>{first_group + group, here, x.data() + first, ones, kOneRow, y.data() + first, 0}, {s, 1.0f}, bound, queue);
    }
    settle(stream, {s, 1.0f}, bound, queue);
    return y;
}

}  // namespace hushvec::test
