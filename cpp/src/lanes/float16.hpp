// IEEE binary16 and bfloat16 as bits, converted with integers: the same result on every machine.
#pragma once

#include <bit>
#include <cstdint>

#include "lanes/inline.hpp"

namespace hushvec {

inline constexpr std::uint16_t kLargestFloat16 = 0x7BFF;    // 65504
inline constexpr std::uint16_t kLargestBfloat16 = 0x7F7F;

HUSHVEC_INLINE float float16_to_float(std::uint16_t half) {
    const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
    const std::uint32_t magnitude = static_cast<std::uint32_t>(half & 0x7FFFu) << 13;   // exponent and fraction in place
    // Subnormal and normal halves alike become exact floats by one product with 2^(127 - 15).
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
    const std::uint32_t special = magnitude >= 0x0F800000u ? 0x7F800000u : 0u;   // Inf and NaN keep a full exponent
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special | sign);
}

// To nearest even; values beyond the largest finite half become infinite, as IEEE 754 has it.
HUSHVEC_INLINE std::uint16_t float_to_float16(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
    if (magnitude >= 0x47800000u) {   // 65536 and up, Inf, NaN
        return static_cast<std::uint16_t>(sign | (magnitude > 0x7F800000u ? 0x7E00u : 0x7C00u));
    }
    if (magnitude < 0x38800000u) {   // below 2^-14: let the adder of a float with ulp 2^-24 round
        const float shifted = std::bit_cast<float>(magnitude) + 0x1p-1f;
        return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000u));
    }
    const std::uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
    return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

HUSHVEC_INLINE float bfloat16_to_float(std::uint16_t bfloat) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bfloat) << 16);
}

// To nearest even, for finite values.
HUSHVEC_INLINE std::uint16_t float_to_bfloat16(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace hushvec
