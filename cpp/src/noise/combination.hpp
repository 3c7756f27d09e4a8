// Exact noise of several streams: y = g round(X + s_1 Z_1 + ... + s_p Z_p) over the reals, one sample of each stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "hushvec/keystream.hpp"
#include "lanes/inline.hpp"

namespace hushvec {

struct ScaledStream {
    const KeyStream* stream;
    double s;   // the coefficient in grid units, exact; 0 < |s| <= 128
};

// s Z of some groups of one call, put into `noise` or added to it; r = |s| radius into `reach`, at the places of the cosine samples:
// infinite for words outside the window, in which the bound holds.
struct NormalsRun {
    std::uint64_t first_group;
    std::size_t groups;
    float s;
    bool add;
    float* noise;
    float* reach;
};

struct CombinationRun {
    std::uint64_t first_group;
    std::size_t groups;
    const double* x;
    const double* scale;   // as many as a vector has lanes: X = x scale
    const float* noise;
    const float* reach;
    std::span<const ScaledStream> terms;
    float grid;
    float* y;   // not x
};

// The exact ladder: its levels are those of noise/ladder.hpp, and the brackets of the terms add up. n of sample `cosine` or `sine` of pair `pair`. Needs |x| <= 2^21 and |s_1| + ... + |s_p| <= 2^11. A `first_level` above 2 is for tests.
HUSHVEC_COLD std::int32_t settle_combination(std::span<const ScaledStream> terms, std::uint64_t pair, bool sine, double x,
                                             int first_level = 2);

}  // namespace hushvec
