// e^-x in fixed point, with a proved error.
#pragma once

#include <cstdint>
#include <vector>

#include "noise/fixed_point.hpp"

namespace hushvec {

// exp_of_minus(r, n) is off by less than 2^(kExpErrorBits + n) ulps.
inline constexpr int kExpErrorBits = 17;

// e^-x for x = 2^halvings r; r in [0, 0.71) is known to 2 ulps of 2^-F, 192 <= F < 2^13.
//
// The terms of e^-r are t_0 = 1, t_i = -t_{i-1} r / i, |t_i| <= 1. Error of t_i: (2 |t_{i-1}| + 0.71 error + 1 (product)) / i + 1 (division)
// <= 4 ulps. There are N <= 2 F + 1 terms before one truncates to 0, as 0.71^(2F) < 2^-F; it and what follows are below
// 4 / (1 - 0.71 / 2) < 7 ulps. Sum: 4 N + 7 <= 9 F. A squaring of a value <= 1 makes an error d at most 2 d + 2: n of them make it
// 2^n (9 F + 2) < 2^(n + 17).
inline FixedPoint<std::vector<std::uint32_t>> exp_of_minus(const FixedPoint<std::vector<std::uint32_t>>& r, int halvings) {
    using Number = FixedPoint<std::vector<std::uint32_t>>;
    Number sum(r.fraction_limbs(), 1);
    Number term = sum;
    for (std::uint32_t i = 1;; ++i) {
        term = term * r;
        term.negate();
        term /= i;
        if (term.is_zero()) break;
        sum += term;
    }
    for (int i = 0; i < halvings; ++i) sum = sum * sum;
    return sum;
}

}  // namespace hushvec
