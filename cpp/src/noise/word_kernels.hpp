// The same transforms and the same exact rounding on words given by the caller: for the bound checker and the tests.
#pragma once

#include <cstddef>
#include <cstdint>

#include "noise/box_muller.hpp"
#include "noise/exact_round.hpp"
#include "noise/half_words.hpp"

namespace hushvec {

template <class V>
void normals_of_words(const std::uint32_t* radius_words, const std::uint32_t* angle_words, std::size_t count,
                      float* radius, float* cosine, float* sine) {
    for (std::size_t i = 0; i < count; i += V::lanes) {
        const NormalPair<V> normal = normal_pair<V>(V::load(radius_words + i), V::load(angle_words + i));
        V::store(radius + i, normal.radius);
        V::store(cosine + i, normal.cosine);
        V::store(sine + i, normal.sine);
    }
}

template <class V>
void minus_two_logs_of_words(const std::uint32_t* words, std::size_t count, float* out) {
    for (std::size_t i = 0; i < count; i += V::lanes) V::store(out + i, minus_two_log<V>(V::load(words + i)));
}

template <class V>
void store_as_int32(std::int32_t* out, typename V::F32 index) {
    alignas(64) float lanes[kMaxLanes];
    V::store(lanes, index);
    for (std::size_t l = 0; l < V::lanes; ++l) out[l] = static_cast<std::int32_t>(lanes[l]);
}

template <class V>
void exact_gaussian_of_words(const KeyStream& stream, std::uint64_t first_pair, const std::uint32_t* radius_words,
                             const std::uint32_t* angle_words, const double* x_cosine, const double* x_sine, bool x_is_float32,
                             std::size_t count, float s, ErrorBound bound, std::int32_t* n_cosine, std::int32_t* n_sine) {
    const ExactScale<V> scale(s, bound);
    for (std::size_t i = 0; i < count; i += V::lanes) {
        const auto radius_word = V::load(radius_words + i);
        const auto angle_word = V::load(angle_words + i);
        const NormalPair<V> normal = normal_pair<V>(radius_word, angle_word);
        const auto first = V::load(x_cosine + i);
        const auto second = V::load(x_sine + i);
        const LanePair<V> n = x_is_float32
                                  ? exact_gaussian_pair<V>(stream, first_pair + i, scale, normal, radius_word, angle_word,
                                                           Float32Elements<V>{V::narrow(first)}, Float32Elements<V>{V::narrow(second)})
                                  : exact_gaussian_pair<V>(stream, first_pair + i, scale, normal, radius_word, angle_word,
                                                           Float64Elements<V>{first}, Float64Elements<V>{second});
        store_as_int32<V>(n_cosine + i, n.cosine);
        store_as_int32<V>(n_sine + i, n.sine);
    }
}

template <class V>
void exact_laplace_of_words(const KeyStream& stream, std::uint64_t first_sample, const std::uint32_t* words, const double* x,
                            bool x_is_float32, std::size_t count, float s, ErrorBound bound, std::int32_t* n) {
    const ExactScale<V> scale(s, bound);
    for (std::size_t i = 0; i < count; i += V::lanes) {
        const auto word = V::load(words + i);
        const auto element = V::load(x + i);
        store_as_int32<V>(n + i, x_is_float32
                                     ? exact_laplace<V>(stream, first_sample + i, scale, word, Float32Elements<V>{V::narrow(element)})
                                     : exact_laplace<V>(stream, first_sample + i, scale, word, Float64Elements<V>{element}));
    }
}

// ---- level 0 of version 3 ----

template <class V>
void half_normals_of_words(const std::uint32_t* words, std::size_t count, float* radius, std::uint32_t* exponent, float* cosine, float* sine) {
    for (std::size_t i = 0; i < count; i += V::lanes) {
        const auto word = V::load(words + i);
        const HalfLog<V> log = minus_two_log_of_half_radius<V>(word);
        const LanePair<V> unit = cosine_and_sine_of_half<V>(word);
        V::store(radius + i, V::sqrt(log.value));
        V::store(exponent + i, log.exponent);
        V::store(cosine + i, unit.cosine);
        V::store(sine + i, unit.sine);
    }
}

template <class V>
void half_minus_two_logs_of_words(const std::uint32_t* halves, std::size_t count, float* out, std::uint32_t* exponent) {
    for (std::size_t i = 0; i < count; i += V::lanes) {
        const HalfLog<V> log = minus_two_log_of_half_laplace<V>(V::load(halves + i));
        V::store(out + i, log.value);
        V::store(exponent + i, log.exponent);
    }
}

template <class V>
void store_open(std::uint8_t* out, typename V::Mask open) {
    const std::uint32_t bits = V::bits(open);
    for (std::size_t l = 0; l < V::lanes; ++l) out[l] = bits >> l & 1u;
}

template <class V, class Round>
HalfRounding<V> rounding_of(const double* x, bool x_is_float32, Round round) {
    const auto wide = V::load(x);
    return x_is_float32 ? round(Float32Elements<V>{V::narrow(wide)}) : round(Float64Elements<V>{wide});
}

template <class V>
void half_gaussian_of_words(const std::uint32_t* words, const double* x_cosine, const double* x_sine, bool x_is_float32, std::size_t count,
                            float s, const HalfWordBound& bound, const HalfRoundings& out) {
    const HalfWordScale<V> scale(s, bound);
    for (std::size_t i = 0; i < count; i += V::lanes) {
        const auto word = V::load(words + i);
        const HalfRadius<V> radius = half_radius<V>(scale, word);
        const LanePair<V> unit = cosine_and_sine_of_half<V>(word);
        const auto round_with = [&](typename V::F32 factor) {
            return [&radius, factor](auto x) { return round_half<V>(radius.signed_value, factor, x); };
        };
        const HalfRounding<V> cosine = rounding_of<V>(x_cosine + i, x_is_float32, round_with(unit.cosine));
        const HalfRounding<V> sine = rounding_of<V>(x_sine + i, x_is_float32, round_with(unit.sine));
        V::store(out.n[0] + i, cosine.n);
        V::store(out.n[1] + i, sine.n);
        V::store(out.d[0] + i, cosine.d);
        V::store(out.d[1] + i, sine.d);
        V::store(out.limit + i, radius.limit);
        store_open<V>(out.open + i, V::not_less(V::larger_magnitude(cosine.d, sine.d), radius.limit));
    }
}

template <class V>
void half_laplace_of_words(const std::uint32_t* halves, const double* x, bool x_is_float32, std::size_t count, float s,
                           const HalfWordBound& bound, const HalfRoundings& out) {
    const HalfWordScale<V> scale(s, bound);
    for (std::size_t i = 0; i < count; i += V::lanes) {
        const HalfLaplaces<V> laplaces = half_laplaces<V>(scale, V::load(halves + i));
        const HalfRounding<V> rounding = rounding_of<V>(x + i, x_is_float32, [&](auto of_x) { return round_half<V>(laplaces.noise, of_x); });
        V::store(out.n[0] + i, rounding.n);
        V::store(out.d[0] + i, rounding.d);
        V::store(out.limit + i, laplaces.limit);
        store_open<V>(out.open + i, V::not_less(V::magnitude(rounding.d), laplaces.limit));
    }
}

}  // namespace hushvec
