// Two standard normals from two key-stream words, in float32 lanes.
//
//   radius = sqrt(-2 ln u), u in (word, word + 1) / 2^32
//   angle  = pi (k + v),    k the top bit of the word, v in [-1/2, 1/2) the other 31 bits as a signed fraction
//   Box and Muller (1958), equation 3; any bijection of the bits that keeps the uniform measure serves for the angle.
//
// Polynomials: minimax fits (Remez) to the ranges given. Measured errors: noise/error_bounds.hpp.
// Valid range: every word; radius of word 0 is finite but outside the window in which the bound holds.
#pragma once

#include <cstdint>

#include "lanes/inline.hpp"

namespace hushvec {

// -2 ln u for u = word / 2^32.
//
// u = 2^-e (1 + f) with f in [-1/3, 1/3): shifting the word left by e drops its leading bit or turns the word negative,
// so that the same 32 bits, read as a signed number, are f * 2^32. Nothing cancels near u = 1, and the conversion
// to float32 rounds f, not u.
template <class V>
HUSHVEC_INLINE typename V::F32 minus_two_log(typename V::U32 word) {
    using F32 = typename V::F32;
    const auto exponent = V::leading_zeros(V::sub(word, V::template shift_right<2>(word)));   // of 3/4 word
    const F32 f = V::mul(V::to_float_signed(V::shift_left(word, exponent)), V::set(0x1p-32f));

    // (-2 ln(1 + f) + 2 f) / f^2, relative error of the whole 2.7e-8
    F32 q = V::set(-0.280527419977f);
    q = V::multiply_add(q, f, V::set(0.307770737018f));
    q = V::multiply_add(q, f, V::set(-0.279916093472f));
    q = V::multiply_add(q, f, V::set(0.328319226956f));
    q = V::multiply_add(q, f, V::set(-0.400223375749f));
    q = V::multiply_add(q, f, V::set(0.50015637724f));
    q = V::multiply_add(q, f, V::set(-0.666663962716f));
    q = V::multiply_add(q, f, V::set(0.999998721584f));
    q = V::multiply_add(q, f, V::set(-2.0f));
    return V::multiply_add(q, f, V::exponent_times_two_ln2(exponent));
}

// One value for the sample of word w (cosine) and one for its partner, word w + 8 (sine).
template <class V>
struct LanePair {
    typename V::F32 cosine, sine;
};

template <class V>
struct NormalPair {
    typename V::F32 radius;         // the half turn of the angle is a sign, left to the caller: flip_sign(radius, angle_word)
    typename V::F32 cosine, sine;
};

template <class V>
HUSHVEC_INLINE NormalPair<V> normal_pair_of_radius(typename V::F32 radius, typename V::U32 angle_word) {
    using F32 = typename V::F32;
    const F32 v = V::mul(V::to_float_signed(V::template shift_left<1>(angle_word)), V::set(0x1p-32f));   // half turns
    const F32 v2 = V::mul(v, v);
    F32 cosine = V::set(-0.0243967164248f);
    cosine = V::multiply_add(cosine, v2, V::set(0.234937558926f));
    cosine = V::multiply_add(cosine, v2, V::set(-1.33521205669f));
    cosine = V::multiply_add(cosine, v2, V::set(4.05870916435f));
    cosine = V::multiply_add(cosine, v2, V::set(-4.93480213723f));
    cosine = V::multiply_add(cosine, v2, V::set(0.999999999781f));
    F32 sine = V::set(0.0772201201279f);
    sine = V::multiply_add(sine, v2, V::set(-0.59804517128f));
    sine = V::multiply_add(sine, v2, V::set(2.5500313773f));
    sine = V::multiply_add(sine, v2, V::set(-5.16770687898f));
    sine = V::multiply_add(sine, v2, V::set(3.14159258005f));
    sine = V::mul(sine, v);
    return {radius, cosine, sine};
}

template <class V>
HUSHVEC_INLINE NormalPair<V> normal_pair(typename V::U32 radius_word, typename V::U32 angle_word) {
    return normal_pair_of_radius<V>(V::sqrt(minus_two_log<V>(radius_word)), angle_word);
}

}  // namespace hushvec
