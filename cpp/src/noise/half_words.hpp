// Level 0 of exact noise of version 3, in float32 lanes: a word holds sixteen bits of radius and sixteen of angle, or those of two Laplace
// samples, and most integers follow from them alone (docs/format.md section 16).
//
// What a half word leaves open is an interval of u. Lanes work with its middle, and a limit on |d| that allows for its ends: how far they
// are depends on the exponent of u, so the limit comes from a table. What |d| does not decide goes to level 1 with sixteen more bits
// (noise/half_word_kernels.hpp). docs/proofs/level1_bound.md derives the bound.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dispatch/error_bound.hpp"
#include "lanes/inline.hpp"
#include "noise/error_bounds.hpp"
#include "noise/exact_round.hpp"

namespace hushvec {

// -2 ln u for u = odd / 2^bits, which float32 holds exactly: exponent and significand in [2/3, 4/3) are read off its bits.
template <class V>
struct HalfLog {
    typename V::U32 exponent;   // odd is in [2/3, 4/3) 2^exponent
    typename V::F32 value;
};

template <class V, int bits>
HUSHVEC_INLINE HalfLog<V> minus_two_log_of_half(typename V::U32 odd) {
    constexpr std::uint32_t kTwoThirds = 0x3f2aaaab;
    constexpr float kTwoLn2 = 1.3862943611198906188f;
    const auto float_bits = V::bits_of(V::to_float_signed(odd));
    const auto exponent = V::template shift_right_signed<23>(V::sub(float_bits, V::set(kTwoThirds)));
    const auto f = V::sub(V::of_bits(V::sub(float_bits, V::template shift_left<23>(exponent))), V::set(1.0f));

    // (-2 ln(1 + f) + 2 f) / f^2, relative error of the whole 5.4e-6
    auto q = V::set(0.4160482883453369f);
    q = V::multiply_add(q, f, V::set(-0.452181339263916f));
    q = V::multiply_add(q, f, V::set(0.4921115040779114f));
    q = V::multiply_add(q, f, V::set(-0.6646127104759216f));
    q = V::multiply_add(q, f, V::set(1.0002318620681763f));
    q = V::multiply_add(q, f, V::set(-2.0f));
    return {exponent, V::multiply_add(q, f, V::multiply_add(V::to_float_signed(exponent), V::set(-kTwoLn2), V::set(bits * kTwoLn2)))};
}

// Of u of a pair, the upper half of its word, and of a Laplace sample's half word.
template <class V>
HUSHVEC_INLINE HalfLog<V> minus_two_log_of_half_radius(typename V::U32 word) {
    return minus_two_log_of_half<V, 17>(V::bit_or(V::template shift_right<15>(word), V::set(1u)));
}
template <class V>
HUSHVEC_INLINE HalfLog<V> minus_two_log_of_half_laplace(typename V::U32 half) {
    return minus_two_log_of_half<V, 16>(V::bit_or(half, V::set(1u)));
}

// Cosine and sine at the middle of the angle's interval, errors 6.7e-6 besides it; the half turn is a sign, left to the caller.
template <class V>
HUSHVEC_INLINE LanePair<V> cosine_and_sine_of_half(typename V::U32 word) {
    // The low fifteen bits, as a signed fraction: with their top bit flipped they are the significand of a number in [1, 2).
    const auto fraction = V::bit_and(V::template shift_left<8>(word), V::set(0x7fff00u));
    const auto v = V::sub(V::of_bits(V::bit_xor(fraction, V::set(0x3f800000u | 0x400000u))), V::set(1.5f - 0x1p-16f));   // half turns
    const auto v2 = V::mul(v, v);
    auto cosine = V::set(-1.222129225730896f);
    cosine = V::multiply_add(cosine, v2, V::set(4.041284561157227f));
    cosine = V::multiply_add(cosine, v2, V::set(-4.933938026428223f));
    cosine = V::multiply_add(cosine, v2, V::set(0.9999933242797852f));
    auto sine = V::set(-0.5546361804008484f);
    sine = V::multiply_add(sine, v2, V::set(2.5418989658355713f));
    sine = V::multiply_add(sine, v2, V::set(-5.167142868041992f));
    sine = V::multiply_add(sine, v2, V::set(3.1415820121765137f));
    return {cosine, V::mul(sine, v)};
}

// What level 0 multiplies by, and its limits on |d| by the exponent of u, before what the radius takes off.
template <class V>
struct HalfWordScale {
    HUSHVEC_INLINE HalfWordScale(float scale_in_grids, const HalfWordBound& bound)
        : s(V::set(scale_in_grids)), half_s(V::set(0.5f * scale_in_grids)), per_radius(V::set(bound.per_radius)), limits(limits_of(scale_in_grids, bound)) {}

    typename V::F32 s, half_s, per_radius;
    typename V::Table16 limits;   // entry e mod 16

private:
    static HUSHVEC_INLINE typename V::Table16 limits_of(float scale_in_grids, const HalfWordBound& bound) {
        alignas(64) float table[16];
        for (std::size_t e = 0; e < 16; ++e) table[e] = 0.5f - bound.constant - bound.per_scale[e] * scale_in_grids;
        return typename V::Table16(table);
    }
};

// s R with the sign of the half turn, and what |d| must be below; negative outside the window.
template <class V>
struct HalfRadius {
    typename V::F32 signed_value, limit;
};

template <class V>
HUSHVEC_INLINE HalfRadius<V> half_radius(const HalfWordScale<V>& scale, typename V::U32 word) {
    const HalfLog<V> log = minus_two_log_of_half_radius<V>(word);
    const auto limit = V::select(outside_window<V, kHalfGaussianWindow>(word), V::set(-1.0f), scale.limits.at(log.exponent));
    const auto r = V::mul(V::sqrt(log.value), scale.s);
    return {V::flip_sign(r, V::template shift_left<16>(word)), V::negative_multiply_add(r, scale.per_radius, limit)};
}

template <class V>
struct HalfLaplaces {
    typename V::F32 noise, limit;
};

// `half`: the sixteen bits of each sample.
template <class V>
HUSHVEC_INLINE HalfLaplaces<V> half_laplaces(const HalfWordScale<V>& scale, typename V::U32 half) {
    const HalfLog<V> log = minus_two_log_of_half_laplace<V>(half);
    const auto r = V::mul(log.value, scale.half_s);
    const auto limit = V::negative_multiply_add(r, scale.per_radius, scale.limits.at(log.exponent));
    return {with_laplace_sign<V>(r, half), V::select(outside_window<V, kHalfLaplaceWindow>(half), V::set(-1.0f), limit)};
}

// n, and how far X + s Z is from it as far as half a word says.
template <class V>
struct HalfRounding {
    typename V::F32 n, d;
};

template <class V, class Elements>
HUSHVEC_INLINE HalfRounding<V> round_half(typename V::F32 noise, Elements x) {
    const auto n = nearest_integer<V>(V::add(noise, x.as_float()));
    return {n, V::add(noise, x.minus(n))};
}

// The same of noise that is a product.
template <class V, class Elements>
HUSHVEC_INLINE HalfRounding<V> round_half(typename V::F32 r, typename V::F32 unit, Elements x) {
    const auto n = nearest_integer<V>(V::multiply_add(r, unit, x.as_float()));
    return {n, V::multiply_add(r, unit, x.minus(n))};
}

}  // namespace hushvec
