// Kernels of float64 noise: fills of whole groups, and the same transforms on words given by the caller.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hushvec/keystream.hpp"
#include "lanes/inline.hpp"
#include "noise/float64_lanes.hpp"
#include "noise/group_kernels.hpp"

namespace hushvec {

// Like for_each_slice, with the 32 bits behind each word: calls visit(words, low words, target) for every slice.
template <class V, class Words, class Visit>
HUSHVEC_INLINE void for_each_wide_slice(const KeyStream& stream, std::uint64_t first_group, std::size_t groups, double* out, Visit visit) {
    alignas(64) std::uint32_t words[kGroupSamples], low[kGroupSamples];
    Words main_cipher(stream, domain::kMain), low_cipher(stream, domain::kLowWords);
    for (std::size_t group = 0; group < groups; ++group) {
        main_cipher.groups(first_group + group, 1, words);
        low_cipher.groups(first_group + group, 1, low);
        for (std::size_t offset = 0; offset < kGroupBlocks; offset += V::lanes) {
            visit(words + offset, low + offset, out + group * kGroupSamples + offset);
        }
    }
}

template <class V>
HUSHVEC_INLINE WideWord<V> wide_word(const std::uint32_t* words, const std::uint32_t* low) {
    return {V::load(words), V::load(low)};
}

template <class V, class Words>
void fill_gaussian_f64(const KeyStream& stream, double sigma, std::uint64_t first_group, std::size_t groups, double* out) {
    const auto sigma_lanes = V::set(sigma);
    const auto fill_slice = [&](const std::uint32_t* words, const std::uint32_t* low, double* target) HUSHVEC_INLINE_LAMBDA {
        for (std::size_t word = 0; word < kBlockWords / 2; ++word) {
            const std::size_t first = word * kGroupBlocks;
            const std::size_t second = first + kHalfGroup;
            const WidePair<V> z = normals_f64<V>(wide_word<V>(words + first, low + first), wide_word<V>(words + second, low + second));
            V::store(target + first, V::mul(z.cosine, sigma_lanes));
            V::store(target + second, V::mul(z.sine, sigma_lanes));
        }
    };
    for_each_wide_slice<V, Words>(stream, first_group, groups, out, fill_slice);
}

template <class V, class Words>
void fill_laplace_f64(const KeyStream& stream, double scale, std::uint64_t first_group, std::size_t groups, double* out) {
    const auto scale_lanes = V::set(scale);
    const auto fill_slice = [&](const std::uint32_t* words, const std::uint32_t* low, double* target) HUSHVEC_INLINE_LAMBDA {
        for (std::size_t word = 0; word < kBlockWords; ++word) {
            const std::size_t first = word * kGroupBlocks;
            V::store(target + first, V::mul(laplace_f64<V>(wide_word<V>(words + first, low + first)), scale_lanes));
        }
    };
    for_each_wide_slice<V, Words>(stream, first_group, groups, out, fill_slice);
}

template <class V>
void normals_f64_of_words(const std::uint32_t* radius_words, const std::uint32_t* radius_low, const std::uint32_t* angle_words,
                          const std::uint32_t* angle_low, std::size_t count, double* cosine, double* sine) {
    for (std::size_t i = 0; i < count; i += V::lanes) {
        const WidePair<V> z = normals_f64<V>(wide_word<V>(radius_words + i, radius_low + i), wide_word<V>(angle_words + i, angle_low + i));
        V::store(cosine + i, z.cosine);
        V::store(sine + i, z.sine);
    }
}

template <class V>
void laplaces_f64_of_words(const std::uint32_t* words, const std::uint32_t* low, std::size_t count, double* out) {
    for (std::size_t i = 0; i < count; i += V::lanes) V::store(out + i, laplace_f64<V>(wide_word<V>(words + i, low + i)));
}

}  // namespace hushvec
