// privunit with its levels exposed: what the tests use to force one, or to see that a smaller bound goes wrong.
#pragma once

#include "hushvec/privunit.hpp"

namespace hushvec {

struct PrivUnitTrial {
    double bound_factor = 1.0;   // scales level 1's E; from 1e9 on every element goes down the ladder
    int first_level = 2;         // of the ladder below level 1: 2 or 4
};

void privunit_trial(const KeyStream& stream, const MatrixView& x, PrivUnitLaw law, double sigma, const MatrixView& out, Output output,
                    PrivUnitTrial trial);

}  // namespace hushvec
