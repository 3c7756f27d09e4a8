// The 2^64 values of a uniform cut into intervals: `truth` values for the truth, then `other` values for each of the other labels.
//
// The number of the interval that a uniform falls into is added to the code, modulo labels: 0 is the truth, and every other label is
// reached from exactly one interval.
#pragma once

#include <cstdint>

#include "hushvec/discrete.hpp"
#include "lanes/inline.hpp"
#include "noise/float64_functions.hpp"

namespace hushvec {

class ResponseIntervals {
public:
    explicit ResponseIntervals(const ResponseLaw& law)
        : truth_(law.truth), other_(law.other), reciprocal_(~std::uint64_t{0} / law.other), labels_(static_cast<std::uint32_t>(law.labels)) {}

    // The number of the interval that holds `uniform`; 0 is the truth. The same operations whatever the number is.
    //
    // 2^64 / other - 1 <= reciprocal <= 2^64 / other, so the high half of the product is floor(beyond / other) or one less.
    HUSHVEC_INLINE std::uint32_t number_of(std::uint64_t uniform) const {
        const std::uint64_t beyond = uniform - truth_;
        auto quotient = static_cast<std::uint64_t>((Uint128{beyond} * reciprocal_) >> 64);
        quotient += static_cast<std::uint64_t>(beyond - quotient * other_ >= other_);
        const auto is_other = static_cast<std::uint32_t>(uniform >= truth_);
        return (static_cast<std::uint32_t>(quotient) + 1) & (0 - is_other);
    }

    // The answer for a code below labels. Likewise the same operations for every code and uniform.
    HUSHVEC_INLINE std::uint32_t answer(std::uint32_t code, std::uint64_t uniform) const {
        const std::uint32_t sum = code + number_of(uniform);
        return sum - (labels_ & (0 - static_cast<std::uint32_t>(sum >= labels_)));
    }

private:
    std::uint64_t truth_;
    std::uint64_t other_;
    std::uint64_t reciprocal_;
    std::uint32_t labels_;
};

// A negative value becomes one above every number of labels.
template <class Code>
HUSHVEC_INLINE bool is_code(Code value, std::uint64_t labels) {
    return static_cast<std::uint64_t>(value) < labels;
}

}  // namespace hushvec
