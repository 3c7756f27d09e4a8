// A bound on the error of the float32 level, which each instruction set brings along; noise/error_bounds.hpp derives and lists them.
#pragma once

namespace hushvec {

struct ErrorBound {
    float constant;
    float per_scale;
    float per_radius;
};

}  // namespace hushvec
