// The 2^64 values of a uniform cut into intervals: `truth` values for the truth, then `other` values for each of the other labels.
#pragma once

#include <cstdint>

#include "hushvec/discrete.hpp"
#include "noise/float64_functions.hpp"

namespace hushvec {

class ResponseIntervals {
public:
    explicit ResponseIntervals(const ResponseLaw& law)
        : truth_(law.truth), other_(law.other), reciprocal_(~std::uint64_t{0} / law.other) {}

    // The number of the interval that holds `uniform`; 0 is the truth. The same operations whatever the number is.
    //
    // 2^64 / other - 1 <= reciprocal <= 2^64 / other, so the high half of the product is floor(beyond / other) or one less.
    std::uint32_t number_of(std::uint64_t uniform) const {
        const std::uint64_t beyond = uniform - truth_;
        auto quotient = static_cast<std::uint64_t>((Uint128{beyond} * reciprocal_) >> 64);
        quotient += static_cast<std::uint64_t>(beyond - quotient * other_ >= other_);
        const auto is_other = static_cast<std::uint32_t>(uniform >= truth_);
        return (static_cast<std::uint32_t>(quotient) + 1) & (0 - is_other);
    }

private:
    std::uint64_t truth_;
    std::uint64_t other_;
    std::uint64_t reciprocal_;
};

}  // namespace hushvec
