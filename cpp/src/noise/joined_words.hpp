// Version 3 of the format: how a pair's word and its refinement make the words that the exact levels read (docs/format.md section 16).
#pragma once

#include <cstddef>
#include <cstdint>

#include "hushvec/keystream.hpp"
#include "lanes/inline.hpp"

namespace hushvec {

// `word` is the pair's word of the main domain, `more` the one in the same place of the refinement.
struct JoinedPair {
    std::uint32_t first, second;
};

// The radius word and the angle word.
HUSHVEC_INLINE constexpr JoinedPair joined_gaussian(std::uint32_t word, std::uint32_t more) {
    return {(word & 0xffff0000u) | more >> 16, word << 16 | (more & 0xffffu)};
}

// Of a half word the lowest bit is the sign, which a whole word has there too.
HUSHVEC_INLINE constexpr std::uint32_t joined_laplace(std::uint32_t half, std::uint32_t more) {
    return half >> 1 << 17 | more << 1 | (half & 1u);
}

// The words of the two samples.
HUSHVEC_INLINE constexpr JoinedPair joined_laplaces(std::uint32_t word, std::uint32_t more) {
    return {joined_laplace(word >> 16, more >> 16), joined_laplace(word & 0xffffu, more & 0xffffu)};
}

}  // namespace hushvec
