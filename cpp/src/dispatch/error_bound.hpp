// Bounds on the error of the float32 levels; noise/error_bounds.hpp derives and lists them.
#pragma once

namespace hushvec {

// Of level 1, which each instruction set brings along.
struct ErrorBound {
    float constant;
    float per_scale;
    float per_radius;
};

// Of level 0, which has half a word: per_scale by the exponent of u, modulo 16.
struct HalfWordBound {
    float constant;
    float per_scale[16];
    float per_radius;
};

}  // namespace hushvec
