// Level 1 of PrivUnitG's rounding in float32 lanes: n = round(s z + k X) where float32 can prove it.
//
// X is the row's direction as integers, k = s (alpha - <Z, u>) / |X| the row's push per unit of it. With x = fl(k X),
//
//     t = s z + x,   n = rint(t),   d = s z + (x - n)          accepted if |d| < 1/2 - E
//     E = constant + per_scale s + per_radius s (|z| + |z'|) + |X| per_direction
//
// z' is the other half of the pair: |z| + |z'| is at least the radius. docs/proofs/privunit.md derives E.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lanes/inline.hpp"
#include "lanes/prefetch.hpp"
#include "noise/exact_round.hpp"
#include "noise/group_kernels.hpp"
#include "privunit/row_push.hpp"

namespace hushvec {

inline constexpr std::size_t kRun = 16;   // samples that share one word of open flags, and one push where rows allow it

struct PrivUnitRun {
    std::size_t groups;
    const float* z;
    const float* direction;    // X of every sample
    const float* push;         // k of every sample, or of every 16 where these lie in one row
    bool push_of_16;
    float s;
    float grid;
    level_one::Limits limits;
    float per_direction;
    float* y;                  // n * grid
    std::uint16_t* open;       // bit i of word w is set where sample 16 w + i is undecided
    std::size_t y_bytes_ahead; // how far ahead of its use y is fetched; 0 where it is at hand
};

// 1/2 - E of both samples of a pair, but for the row's own term.
template <class V>
HUSHVEC_INLINE typename V::F32 privunit_pair_limit(typename V::F32 z, typename V::F32 partner, typename V::F32 per_magnitude,
                                                   typename V::F32 limit_at_zero) {
    return V::negative_multiply_add(V::add(V::magnitude(z), V::magnitude(partner)), per_magnitude, limit_at_zero);
}

template <class V>
struct PrivUnitRounding {
    typename V::F32 n;
    typename V::Mask open;
};

template <class V>
HUSHVEC_INLINE PrivUnitRounding<V> privunit_round_one(typename V::F32 s, typename V::F32 z, typename V::F32 direction, typename V::F32 push,
                                                      typename V::F32 per_direction, typename V::F32 pair_limit) {
    const auto x = V::mul(push, direction);
    const auto n = nearest_integer<V>(V::multiply_add(s, z, x));
    const auto d = V::multiply_add(s, z, V::sub(x, n));
    const auto limit = V::negative_multiply_add(V::magnitude(direction), per_direction, pair_limit);
    return {n, V::not_less(V::magnitude(d), limit)};
}

template <class V, bool push_of_16>
HUSHVEC_INLINE void privunit_round_groups(const PrivUnitRun& run) {
    const auto s = V::set(run.s), grid = V::set(run.grid), limit_at_zero = V::set(run.limits.at_zero);
    const auto per_magnitude = V::set(run.limits.per_magnitude), per_direction = V::set(run.per_direction);
    const auto round_one = [&](std::size_t at, typename V::F32 z, typename V::F32 pair_limit) HUSHVEC_INLINE_LAMBDA {
        const auto push = push_of_16 ? V::set(run.push[at / kRun]) : V::load(run.push + at);
        const auto rounding = privunit_round_one<V>(s, z, V::load(run.direction + at), push, per_direction, pair_limit);
        V::store(run.y + at, V::mul(rounding.n, grid));
        return V::bits(rounding.open) << at % kRun;
    };
    for (std::size_t group = 0; group < run.groups; ++group) {
        for (std::size_t word = 0; word < kHalfGroup / kRun; ++word) {
            const std::size_t first = group * kGroupSamples + word * kRun;
            std::uint32_t open = 0, partner_open = 0;
            for (std::size_t at = first; at < first + kRun; at += V::lanes) {
                prefetch_to_write(run.y + at, run.y_bytes_ahead);
                prefetch_to_write(run.y + at + kHalfGroup, run.y_bytes_ahead);
                const auto z = V::load(run.z + at), partner = V::load(run.z + at + kHalfGroup);
                const auto pair_limit = privunit_pair_limit<V>(z, partner, per_magnitude, limit_at_zero);
                open |= round_one(at, z, pair_limit);
                partner_open |= round_one(at + kHalfGroup, partner, pair_limit);
            }
            run.open[first / kRun] = static_cast<std::uint16_t>(open);
            run.open[(first + kHalfGroup) / kRun] = static_cast<std::uint16_t>(partner_open);
        }
    }
}

template <class V>
void privunit_round(const PrivUnitRun& run) {
    run.push_of_16 ? privunit_round_groups<V, true>(run) : privunit_round_groups<V, false>(run);
}

// Added in the order of the lanes.
template <class V>
DirectionProducts direction_products(const float* direction, const float* z, std::size_t count) {
    constexpr std::size_t kAccumulators = 2;
    typename V::F64Pair squares[kAccumulators], products[kAccumulators];
    for (std::size_t k = 0; k < kAccumulators; ++k) squares[k] = products[k] = V::zero_pair();
    std::size_t j = 0;
    for (; j + kAccumulators * V::lanes <= count; j += kAccumulators * V::lanes) {
        for (std::size_t k = 0; k < kAccumulators; ++k) {
            const auto x = V::load_widened(direction + j + k * V::lanes);
            squares[k] = V::multiply_add(x, x, squares[k]);
            products[k] = V::multiply_add(x, V::load_widened(z + j + k * V::lanes), products[k]);
        }
    }
    double lanes[2][V::lanes];
    V::store(lanes[0], V::add(squares[0], squares[1]));
    V::store(lanes[1], V::add(products[0], products[1]));
    DirectionProducts sums = {0.0, 0.0};
    for (std::size_t lane = 0; lane < V::lanes; ++lane) {
        sums.squares += lanes[0][lane];
        sums.product += lanes[1][lane];
    }
    for (; j < count; ++j) {
        sums.squares += double{direction[j]} * double{direction[j]};
        sums.product += double{direction[j]} * double{z[j]};
    }
    return sums;
}

// out = the integers nearest to row * scale, which must be at most 2^22 in size. row may be out.
template <class V>
void round_row(const float* row, std::size_t count, float scale, float* out) {
    const auto factor = V::set(scale);
    std::size_t j = 0;
    for (; j + V::lanes <= count; j += V::lanes) V::store(out + j, nearest_integer<V>(V::mul(V::load(row + j), factor)));
    constexpr float kMagic = 0x1.8p23f;
    for (; j < count; ++j) out[j] = (row[j] * scale + kMagic) - kMagic;
}

}  // namespace hushvec
