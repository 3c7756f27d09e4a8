// alpha: a row's component along its direction, exactly sampled from docs/format.md section 8.
//
// Whether the row falls into the cap takes 53 bits. alpha itself is a normal variate conditioned on one side of the threshold,
// by rejection: below it from Box-Muller normals, above it (Robert 1995) from
//     a = threshold + L / rate, L = -ln u      accepted where (a - rate)^2 <= -2 ln v
// so that at least one attempt in two succeeds. Each decision is made in float64 (component_float64.hpp) where its error bound
// allows, and in multiprecision elsewhere.
#pragma once

#include <cstdint>

#include "hushvec/keystream.hpp"
#include "hushvec/privunit.hpp"
#include "noise/ladder_multiprecision.hpp"
#include "privunit/component_float64.hpp"

namespace hushvec {

struct Component {
    double value;         // alpha, within half_width
    double half_width;
    Block block;          // of the accepted attempt
    bool in_cap;          // alpha >= threshold
};

inline constexpr std::size_t kComponentRows = kGroupBlocks;   // rows whose blocks make one group of the key stream

// alpha of rows 16 group to 16 group + count - 1 of a call, count at most 16.
void draw_components(const KeyStream& stream, PrivUnitLaw law, std::uint64_t group, std::size_t count, Component* components);

// A double among numbers at the midpoint of 224 bits.
UnlimitedNumber exactly(double value);

// alpha at the midpoint of all 224 bits of its uniforms.
UnlimitedNumber component_at_midpoint(const Component& component, double threshold);

}  // namespace hushvec
