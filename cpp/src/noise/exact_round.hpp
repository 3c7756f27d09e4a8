// Level 1 of the exact ladder, in float32 lanes: n = round(X + s Z) where float32 can prove it.
//
// docs/format.md section 5 defines n; noise/error_bounds.hpp the bound E. With r = s * radius:
//   t = r c + X,  n = rint(t),  d = r c + (X - n)      accepted if |d| < 1/2 - E
// d is formed from X - n, not from t, so the bound does not grow with X. Lanes that fail go down the ladder.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hushvec/keystream.hpp"
#include "lanes/inline.hpp"
#include "noise/box_muller.hpp"
#include "noise/error_bounds.hpp"
#include "noise/laplace.hpp"
#include "noise/settle_lanes.hpp"

namespace hushvec {

template <class V>
struct ExactScale {
    HUSHVEC_INLINE ExactScale(float scale_in_grids, ErrorBound bound)
        : scalar(scale_in_grids), s(V::set(scale_in_grids)), half_s(V::set(0.5f * scale_in_grids)),
          limit_at_zero(V::set(0.5f - bound.constant - bound.per_scale * scale_in_grids)), per_radius(V::set(bound.per_radius)) {}

    float scalar;
    typename V::F32 s, half_s;
    typename V::F32 limit_at_zero;   // 1/2 - constant - per_scale * s
    typename V::F32 per_radius;
};

// X in grid units, as float32 lanes or as two half vectors of float64.
template <class V>
struct Float32Elements {
    typename V::F32 value;

    HUSHVEC_INLINE typename V::F32 as_float() const { return value; }
    HUSHVEC_INLINE typename V::F32 minus(typename V::F32 index) const { return V::sub(value, index); }
    HUSHVEC_INLINE void store(double* out) const { V::store_widened(out, value); }
};

template <class V>
struct Float64Elements {
    typename V::F64Pair value;

    HUSHVEC_INLINE typename V::F32 as_float() const { return V::narrow(value); }
    HUSHVEC_INLINE typename V::F32 minus(typename V::F32 index) const { return V::narrow(V::sub(value, V::widen(index))); }
    HUSHVEC_INLINE void store(double* out) const { V::store(out, value); }
};

// The nearest integer, never -0, for |t| <= 2^22: adding 3 * 2^22 leaves no fraction bits.
template <class V>
HUSHVEC_INLINE typename V::F32 nearest_integer(typename V::F32 t) {
    const auto magic = V::set(0x1.8p23f);
    return V::sub(V::add(t, magic), magic);
}

template <class V, WordWindow window>
HUSHVEC_INLINE typename V::Mask outside_window(typename V::U32 word) {
    // Both sides with the top bit flipped: AVX2 compares signed numbers alone.
    constexpr std::uint32_t kTop = 0x80000000u;
    return V::greater_signed(V::sub(word, V::set(window.smallest ^ kTop)), V::set((window.largest - window.smallest) ^ kTop));
}

// What float32 made of one vector of pairs; lanes in `open` must go down the ladder.
template <class V>
struct GaussianRounding {
    LanePair<V> n, d;
    typename V::F32 limit;
    typename V::Mask open;
};

template <class V, class Elements>
HUSHVEC_INLINE GaussianRounding<V> round_gaussian_pair(const ExactScale<V>& scale, NormalPair<V> normal, typename V::U32 radius_word,
                                                       typename V::U32 angle_word, Elements x_cosine, Elements x_sine) {
    using F32 = typename V::F32;
    const F32 r = V::mul(normal.radius, scale.s);
    const F32 limit = V::negative_multiply_add(r, scale.per_radius, scale.limit_at_zero);
    const F32 signed_r = V::flip_sign(r, angle_word);

    const F32 n_cosine = nearest_integer<V>(V::multiply_add(signed_r, normal.cosine, x_cosine.as_float()));
    const F32 n_sine = nearest_integer<V>(V::multiply_add(signed_r, normal.sine, x_sine.as_float()));
    const F32 d_cosine = V::multiply_add(signed_r, normal.cosine, x_cosine.minus(n_cosine));
    const F32 d_sine = V::multiply_add(signed_r, normal.sine, x_sine.minus(n_sine));

    const auto open = V::mask_or(V::not_less(V::larger_magnitude(d_cosine, d_sine), limit),
                                 outside_window<V, kGaussianWindow>(radius_word));
    return {{n_cosine, n_sine}, {d_cosine, d_sine}, limit, open};
}

template <class V, class Elements>
HUSHVEC_INLINE void spill_open_pair(OpenGaussianLanes& lanes, typename V::U32 radius_word, typename V::U32 angle_word, Elements x_cosine,
                                    Elements x_sine, GaussianRounding<V> rounding) {
    V::store(lanes.radius_word, radius_word);
    V::store(lanes.angle_word, angle_word);
    x_cosine.store(lanes.x[0]);
    x_sine.store(lanes.x[1]);
    V::store(lanes.index[0], rounding.n.cosine);
    V::store(lanes.index[1], rounding.n.sine);
    V::store(lanes.distance[0], rounding.d.cosine);
    V::store(lanes.distance[1], rounding.d.sine);
    V::store(lanes.limit, rounding.limit);
}

template <class V, class Elements>
HUSHVEC_COLD LanePair<V> settle_open_pair(const KeyStream& stream, std::uint64_t first_pair, float s, typename V::U32 radius_word,
                                          typename V::U32 angle_word, Elements x_cosine, Elements x_sine, GaussianRounding<V> rounding) {
    OpenGaussianLanes lanes;
    spill_open_pair<V>(lanes, radius_word, angle_word, x_cosine, x_sine, rounding);
    settle_lanes(stream, first_pair, V::bits(rounding.open), s, lanes);
    return {V::load(lanes.index[0]), V::load(lanes.index[1])};
}

template <class V, class Elements>
HUSHVEC_INLINE LanePair<V> exact_gaussian_pair(const KeyStream& stream, std::uint64_t first_pair, const ExactScale<V>& scale,
                                               NormalPair<V> normal, typename V::U32 radius_word, typename V::U32 angle_word,
                                               Elements x_cosine, Elements x_sine) {
    const auto rounding = round_gaussian_pair<V>(scale, normal, radius_word, angle_word, x_cosine, x_sine);
    if (V::any(rounding.open)) [[unlikely]] {
        return settle_open_pair<V, Elements>(stream, first_pair, scale.scalar, radius_word, angle_word, x_cosine, x_sine, rounding);
    }
    return rounding.n;
}

template <class V>
struct LaplaceRounding {
    typename V::F32 n;
    typename V::Mask open;
};

template <class V, class Elements>
HUSHVEC_INLINE LaplaceRounding<V> round_laplace(const ExactScale<V>& scale, typename V::U32 word, Elements x) {
    using F32 = typename V::F32;
    const F32 r = V::mul(minus_two_log<V>(word), scale.half_s);
    const F32 limit = V::negative_multiply_add(r, scale.per_radius, scale.limit_at_zero);
    const F32 signed_r = with_laplace_sign<V>(r, word);

    const F32 n = nearest_integer<V>(V::add(signed_r, x.as_float()));
    const F32 d = V::add(signed_r, x.minus(n));
    return {n, V::mask_or(V::not_less(V::magnitude(d), limit), outside_window<V, kLaplaceWindow>(word))};
}

template <class V, class Elements>
HUSHVEC_COLD typename V::F32 settle_open_lanes(const KeyStream& stream, std::uint64_t first_sample, std::uint32_t open, float s,
                                               typename V::U32 word, Elements x, typename V::F32 n) {
    OpenLaplaceLanes lanes;
    V::store(lanes.word, word);
    x.store(lanes.x);
    V::store(lanes.index, n);
    settle_lanes(stream, first_sample, open, s, lanes);
    return V::load(lanes.index);
}

template <class V, class Elements>
HUSHVEC_INLINE typename V::F32 exact_laplace(const KeyStream& stream, std::uint64_t first_sample, const ExactScale<V>& scale,
                                             typename V::U32 word, Elements x) {
    const auto rounding = round_laplace<V>(scale, word, x);
    if (V::any(rounding.open)) [[unlikely]] {
        return settle_open_lanes<V, Elements>(stream, first_sample, V::bits(rounding.open), scale.scalar, word, x, rounding.n);
    }
    return rounding.n;
}

}  // namespace hushvec
