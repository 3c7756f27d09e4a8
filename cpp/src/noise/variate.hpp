// Z in float64 from the first 64 bits of each uniform: for far tails, and for the words that the float64 lanes hand back.
// No claim on the last places.
#pragma once

#include <cmath>
#include <cstdint>

#include "noise/ladder_float64.hpp"

namespace hushvec {

struct NormalVariates {
    double cosine, sine;   // the samples of word w and of word w + 8
};

// radius_low and angle_low are the 32 bits behind the words; each uniform is read at the centre of its 64 bits.
HUSHVEC_DEVICE inline NormalVariates normal_variates(std::uint32_t radius_word, std::uint32_t angle_word, std::uint32_t radius_low, std::uint32_t angle_low) {
    GaussianPrefix known = known_bits(GaussianWord{0, radius_word, angle_word, false});
    known.radius = {(known.radius.prefix << 32) | radius_low, known.radius.bits + 32};
    known.angle.prefix = known.angle.prefix * (Int128{1} << 32) + angle_low;
    known.angle.bits += 32;
    const double radius = std::sqrt(2.0 * minus_log(centre(known.radius)));
    return {radius * centre_cosine_or_sine(known.angle, false), radius * centre_cosine_or_sine(known.angle, true)};
}

HUSHVEC_DEVICE inline double laplace_variate(std::uint32_t word, std::uint32_t low) {
    LaplacePrefix known = known_bits(LaplaceWord{0, word});
    known.magnitude = {(known.magnitude.prefix << 32) | low, known.magnitude.bits + 32};
    const double magnitude = minus_log(centre(known.magnitude));
    return known.negative ? -magnitude : magnitude;
}

}  // namespace hushvec
