// Kernels of float64 noise: fills of whole groups, and the same transforms on words given by the caller.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hushvec/keystream.hpp"
#include "lanes/inline.hpp"
#include "noise/float64_lanes.hpp"
#include "noise/group_kernels.hpp"

namespace hushvec {

// The words of consecutive groups with the 32 bits behind each.
struct WideWordsOfGroups {
    const std::uint32_t* words;
    const std::uint32_t* low;
    std::size_t groups;

    template <class V>
    HUSHVEC_INLINE WideWord<V> load(std::size_t i) const { return {V::load(words + i), V::load(low + i)}; }
};

// Like for_words_of_groups, with the low words.
template <class Words, class Visit>
HUSHVEC_INLINE void for_wide_words_of_groups(const KeyStream& stream, std::uint64_t first_group, std::size_t groups, Visit visit) {
    alignas(64) std::uint32_t low[Words::groups_at_once * kGroupSamples];
    Words low_cipher(stream, domain::kLowWords);
    for_words_of_groups<Words>(stream, first_group, groups, [&](const WordsOfGroups& words, std::size_t before) {
        low_cipher.groups(words.first_group, words.groups, low);
        visit(WideWordsOfGroups{words.words, low, words.groups}, before);
    });
}

template <class V>
[[gnu::noinline]] void fill_gaussian_f64_loop(const WideWordsOfGroups& groups, double sigma, double* out) {
    const auto sigma_lanes = V::set(sigma);
    for (std::size_t group = 0; group < groups.groups; ++group) {
        for (std::size_t i = 0; i < kHalfGroup; i += V::lanes) {
            const std::size_t first = group * kGroupSamples + i, second = first + kHalfGroup;
            const WidePair<V> z = normals_f64<V>(groups.load<V>(first), groups.load<V>(second));
            V::store(out + first, V::mul(z.cosine, sigma_lanes));
            V::store(out + second, V::mul(z.sine, sigma_lanes));
        }
    }
}

template <class V>
[[gnu::noinline]] void fill_laplace_f64_loop(const WideWordsOfGroups& groups, double scale, double* out) {
    const auto scale_lanes = V::set(scale);
    for (std::size_t i = 0; i < groups.groups * kGroupSamples; i += V::lanes) {
        V::store(out + i, V::mul(laplace_f64<V>(groups.load<V>(i)), scale_lanes));
    }
}

template <class V, class Words>
void fill_gaussian_f64(const KeyStream& stream, double sigma, std::uint64_t first_group, std::size_t groups, double* out) {
    for_wide_words_of_groups<Words>(stream, first_group, groups, [&](const WideWordsOfGroups& words, std::size_t before) {
        fill_gaussian_f64_loop<V>(words, sigma, out + before);
    });
}

template <class V, class Words>
void fill_laplace_f64(const KeyStream& stream, double scale, std::uint64_t first_group, std::size_t groups, double* out) {
    for_wide_words_of_groups<Words>(stream, first_group, groups, [&](const WideWordsOfGroups& words, std::size_t before) {
        fill_laplace_f64_loop<V>(words, scale, out + before);
    });
}

template <class V>
void normals_f64_of_words(const std::uint32_t* radius_words, const std::uint32_t* radius_low, const std::uint32_t* angle_words,
                          const std::uint32_t* angle_low, std::size_t count, double* cosine, double* sine) {
    for (std::size_t i = 0; i < count; i += V::lanes) {
        const WideWord<V> radius = {V::load(radius_words + i), V::load(radius_low + i)};
        const WideWord<V> angle = {V::load(angle_words + i), V::load(angle_low + i)};
        const WidePair<V> z = normals_f64<V>(radius, angle);
        V::store(cosine + i, z.cosine);
        V::store(sine + i, z.sine);
    }
}

template <class V>
void laplaces_f64_of_words(const std::uint32_t* words, const std::uint32_t* low, std::size_t count, double* out) {
    for (std::size_t i = 0; i < count; i += V::lanes) V::store(out + i, laplace_f64<V>({V::load(words + i), V::load(low + i)}));
}

}  // namespace hushvec
