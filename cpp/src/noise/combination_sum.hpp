// Level 1 where the noise of several streams adds up, for one vector of pairs: n = round(X + s_1 Z_1 + ... + s_p Z_p) where float32 can
// prove it.
//
// docs/format.md section 5 defines the integer, docs/proofs/level1_bound.md the bound:
//   |d - (s_1 Z_1 + ... + X - n)| <= E = constant + per_scale (|s_1| + ...) + (per_radius + (p + 1) 2^-24) (r_1 + ... + r_p)
#pragma once

#include <cstddef>

#include "lanes/inline.hpp"
#include "noise/box_muller.hpp"
#include "noise/error_bounds.hpp"
#include "noise/exact_round.hpp"

namespace hushvec {

// What is released, and what the error of it grows with.
template <class V>
struct NormalSum {
    typename V::F32 cosine, sine;   // s_1 Z_1 + ...
    typename V::F32 reach;          // r_1 + ... with r = |s| radius; infinite where a word lies outside the window of the bound

    // s times the normals of a pair; size = |s|, and radius that of the bound.
    static HUSHVEC_INLINE NormalSum of(NormalPair<V> normal, typename V::U32 angle_word, typename V::F32 s, typename V::F32 size,
                                       typename V::F32 radius) {
        const auto r = V::flip_sign(V::mul(normal.radius, s), angle_word);
        return {V::mul(r, normal.cosine), V::mul(r, normal.sine), V::mul(radius, size)};
    }
    HUSHVEC_INLINE NormalSum plus(NormalPair<V> normal, typename V::U32 angle_word, typename V::F32 s, typename V::F32 size,
                                  typename V::F32 radius) const {
        const auto r = V::flip_sign(V::mul(normal.radius, s), angle_word);
        return {V::multiply_add(r, normal.cosine, cosine), V::multiply_add(r, normal.sine, sine), V::multiply_add(radius, size, reach)};
    }
};

template <class V>
struct CombinationRounding {
    LanePair<V> n;
    typename V::Mask open;   // either of them
};

// 1/2 - E.
struct CombinationLimit {
    float at_zero, per_reach;

    // scales: |s_1| + ... + |s_p|.
    CombinationLimit(ErrorBound bound, std::size_t terms, double scales)
        : at_zero(static_cast<float>(0.5 - double{bound.constant} - double{bound.per_scale} * scales)),
          per_reach(bound.per_radius + static_cast<float>(terms + 1) * 0x1p-24f) {}

    template <class V>
    HUSHVEC_INLINE CombinationRounding<V> round(const NormalSum<V>& noise, Float64Elements<V> x_cosine, Float64Elements<V> x_sine) const {
        const auto n_cosine = nearest_integer<V>(V::add(noise.cosine, x_cosine.as_float()));
        const auto n_sine = nearest_integer<V>(V::add(noise.sine, x_sine.as_float()));
        const auto d_cosine = V::add(noise.cosine, x_cosine.minus(n_cosine));
        const auto d_sine = V::add(noise.sine, x_sine.minus(n_sine));
        const auto limit = V::negative_multiply_add(noise.reach, V::set(per_reach), V::set(at_zero));
        return {{n_cosine, n_sine}, V::not_less(V::larger_magnitude(d_cosine, d_sine), limit)};
    }
};

}  // namespace hushvec
