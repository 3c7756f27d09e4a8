// Single words to and from AES-NI registers.
#pragma once

#include <wmmintrin.h>

#include <cstdint>

#include "lanes/aes/kernels.hpp"
#include "lanes/inline.hpp"

namespace hushvec {

// SubWord of FIPS 197 by the instruction for key schedules, whose result has SubWord of the second word in front.
HUSHVEC_INLINE std::uint32_t ni_sub_word(std::uint32_t word) {
    return static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_aeskeygenassist_si128(_mm_set1_epi32(static_cast<int>(word)), 0)));
}

// A block that was just computed, from its words: read from memory as a whole, it would wait until the stores of its parts are done.
HUSHVEC_INLINE __m128i ni_block(const AesBlock& block) {
    const auto word = [&](int i) { return static_cast<int>(block.words[i]); };
    return _mm_set_epi32(word(3), word(2), word(1), word(0));
}

}  // namespace hushvec
