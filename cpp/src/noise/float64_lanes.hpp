// Normal and Laplace variates in float64 lanes, from 64 bits of each uniform: docs/format.md section 3, read at the centre.
//
//   Gaussian   u = (n + 1/2) / 2^64, n the radius word and 32 low bits        radius = sqrt(-2 ln u)
//              angle = pi (k + v), k the top bit of the angle word, v in (-1/2, 1/2) the other 63 bits, also at their centre
//              Z = radius cos(angle), radius sin(angle)                       Box and Muller (1958), equation 3
//   Laplace    u = (m + 1/2) / 2^63, m all bits but the sign                  Z = -ln u with the sign
//
// Both arguments are reduced as integers, so nothing cancels near u = 1, v = 0 or v = 1/2: every error below is relative to
// the result, however small. Polynomials: float64_polynomials.hpp.
//
//   function       range         max relative error, e = 2^-53: largest of 25 million random and adversarial words
//   normals_f64    every word    4.9 e
//   laplace_f64    every word    3.0 e, portable 3.2 e
//
// tests/evidence/exact/test_float64_lanes.py compares with ball arithmetic and rejects 8 e. Words below kShortWord (one in 4096) go
// to the scalar functions of variate.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lanes/inline.hpp"
#include "noise/float64_polynomials.hpp"
#include "noise/settle_lanes.hpp"

namespace hushvec {

// From here on the first word alone gives the exponent of u, and the half unit at the end may stay where it is while
// the word is shifted: at most 12 places, an error below 0.2 e.
inline constexpr std::uint32_t kShortWord = 1u << 20;

// coefficients[first] + coefficients[first + step] x + coefficients[first + 2 step] x^2 + ...
template <class V, std::size_t first = 0, std::size_t step = 1, std::size_t terms>
HUSHVEC_INLINE typename V::F64Pair polynomial(const double (&coefficients)[terms], typename V::F64Pair x) {
    if constexpr (first + step < terms) {
        return V::multiply_add(polynomial<V, first + step, step>(coefficients, x), x, V::set(coefficients[first]));
    } else {
        return V::set(coefficients[first]);
    }
}

// The lanes' 32-bit words, first and last half of 64 bits.
template <class V>
struct WideWord {
    typename V::U32 high, low;
};

// -2 ln u for u = word / 2^64 + beyond. Results of this and the next function are in the order of V::zip.
//
// u = 2^-e (1 + f) with f in [-1/3, 1/3): shifting the word left by e drops its leading bit or turns the word negative,
// so that the same 64 bits, read as a signed number, are f * 2^64.
template <class V>
HUSHVEC_INLINE typename V::F64Pair minus_two_log_f64(WideWord<V> word, double beyond) {
    const auto leading_zeros = V::leading_zeros(V::sub(word.high, V::template shift_right<2>(word.high)));   // of 3/4 word
    const auto exponent = V::zip(leading_zeros, V::set(std::uint32_t{0}));
    const auto shifted = V::to_double_signed(V::shift_left(V::zip(word.low, word.high), exponent));
    const auto f = V::multiply_add(shifted, V::set(0x1p-64), V::set(beyond));

    const auto f2 = V::mul(f, f);   // two chains of half the length
    const auto even = polynomial<V, 0, 2>(kLogRemainder, f2);
    const auto odd = polynomial<V, 1, 2>(kLogRemainder, f2);
    const auto remainder = V::multiply_add(odd, f, even);
    return V::multiply_add(V::multiply_add(remainder, f, V::set(-2.0)), f, V::exponent_times_two_ln2(exponent));
}

// One value for the sample of word w (cosine) and one for its partner, word w + 8 (sine).
template <class V>
struct WidePair {
    typename V::F64Pair cosine, sine;
};

// cos and sin of the angle but for one sign, which both share: that of the top bit of `sign`.
template <class V>
struct HalfTurn {
    WidePair<V> value;
    typename V::U64Pair sign;
};

// v = w + j/2 with w in [-1/4, 1/4): w is the word without its top two bits, as a signed number. Where |v| > 1/4 (the two
// bits below the top differ) sine and cosine change places:
//     v > 1/4    cos(pi v) = -sin(pi w),  sin(pi v) =  cos(pi w)
//     v < -1/4   cos(pi v) =  sin(pi w),  sin(pi v) = -cos(pi w)
template <class V>
HUSHVEC_INLINE HalfTurn<V> cosine_and_sine_f64(WideWord<V> angle) {
    const auto bit_30 = V::template shift_left<1>(angle.high);
    const auto bit_29 = V::template shift_left<2>(angle.high);
    const auto differ = V::bit_xor(bit_30, bit_29);
    const auto exchange = V::zip(differ, differ);
    const auto negative = V::bit_xor(angle.high, V::bit_and(bit_30, differ));

    // The last bit is the middle of what is not known.
    const auto low = V::add(V::template shift_left<2>(angle.low), V::set(std::uint32_t{2}));
    const auto high = V::add(bit_29, V::template shift_right<30>(angle.low));
    const auto w = V::mul(V::to_double_signed(V::zip(low, high)), V::set(0x1p-65));
    const auto w2 = V::mul(w, w);
    const auto sine = V::flip_sign(V::mul(polynomial<V>(kSineQuotient, w2), w), exchange);
    const auto cosine = V::multiply_add(polynomial<V>(kCosineQuotient, w2), w2, V::set(1.0));
    return {{V::choose(exchange, sine, cosine), V::choose(exchange, cosine, sine)}, V::zip(negative, negative)};
}

// Overwrites the lanes whose bit in `lanes` is set.
HUSHVEC_COLD void normals_of_short_words(std::uint32_t lanes, const std::uint32_t* radius_word, const std::uint32_t* radius_low,
                                         const std::uint32_t* angle_word, const std::uint32_t* angle_low, double* cosine, double* sine);
HUSHVEC_COLD void laplaces_of_short_words(std::uint32_t lanes, const std::uint32_t* word, const std::uint32_t* low, double* value);

template <class V>
HUSHVEC_COLD WidePair<V> resolve_short_words(std::uint32_t lanes, WideWord<V> radius, WideWord<V> angle, WidePair<V> z) {
    alignas(64) std::uint32_t words[4][kMaxLanes];
    alignas(64) double value[2][kMaxLanes];
    V::store(words[0], radius.high);
    V::store(words[1], radius.low);
    V::store(words[2], angle.high);
    V::store(words[3], angle.low);
    V::store(value[0], z.cosine);
    V::store(value[1], z.sine);
    normals_of_short_words(lanes, words[0], words[1], words[2], words[3], value[0], value[1]);
    return {V::load(value[0]), V::load(value[1])};
}

template <class V>
HUSHVEC_COLD typename V::F64Pair resolve_short_words(std::uint32_t lanes, WideWord<V> word, typename V::F64Pair z) {
    alignas(64) std::uint32_t words[2][kMaxLanes];
    alignas(64) double value[kMaxLanes];
    V::store(words[0], word.high);
    V::store(words[1], word.low);
    V::store(value, z);
    laplaces_of_short_words(lanes, words[0], words[1], value);
    return V::load(value);
}

// Standard normals, in the order of the words.
template <class V>
HUSHVEC_INLINE WidePair<V> normals_f64(WideWord<V> radius_word, WideWord<V> angle_word) {
    const auto unsigned_radius = V::sqrt(minus_two_log_f64<V>(radius_word, 0x1p-65));
    const auto angle = cosine_and_sine_f64<V>(angle_word);
    const auto radius = V::flip_sign(unsigned_radius, angle.sign);
    const WidePair<V> z = {V::unzip(V::mul(radius, angle.value.cosine)), V::unzip(V::mul(radius, angle.value.sine))};
    const auto is_short = V::greater(V::set(kShortWord), radius_word.high);
    if (V::any(is_short)) [[unlikely]]
        return resolve_short_words<V>(V::bits(is_short), radius_word, angle_word, z);
    return z;
}

// A standard Laplace variate, in the order of the words. The 63 bits and the middle of what is beyond make up 64.
template <class V>
HUSHVEC_INLINE typename V::F64Pair laplace_f64(WideWord<V> word) {
    const auto without_sign = V::template shift_left<1>(V::template shift_right<1>(word.high));
    const WideWord<V> uniform = {V::add(without_sign, V::template shift_right<31>(word.low)),
                                 V::add(V::template shift_left<1>(word.low), V::set(std::uint32_t{1}))};
    const auto magnitude = V::mul(minus_two_log_f64<V>(uniform, 0.0), V::set(0.5));
    const auto negative = V::template shift_left<31>(word.high);
    const auto z = V::unzip(V::flip_sign(magnitude, V::zip(negative, negative)));
    const auto is_short = V::greater(V::set(kShortWord), word.high);
    if (V::any(is_short)) [[unlikely]]
        return resolve_short_words<V>(V::bits(is_short), word, z);
    return z;
}

}  // namespace hushvec
