// SubWord of FIPS 197 by the instruction for key schedules.
#pragma once

#include <wmmintrin.h>

#include <cstdint>

#include "lanes/inline.hpp"

namespace hushvec {

// Its result has SubWord of the second word in front.
HUSHVEC_INLINE std::uint32_t ni_sub_word(std::uint32_t word) {
    return static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_aeskeygenassist_si128(_mm_set1_epi32(static_cast<int>(word)), 0)));
}

}  // namespace hushvec
