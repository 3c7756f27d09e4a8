#include "array/validate.hpp"

#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "hushvec/clip.hpp"
#include "hushvec/privunit.hpp"

namespace hushvec {
namespace {

std::string shortest(double value) {
    char text[32];
    for (int digits = 1; digits <= 17; ++digits) {
        std::snprintf(text, sizeof text, "%.*g", digits, value);
        if (std::strtod(text, nullptr) == value) break;
    }
    return text;
}

[[noreturn]] void refuse(const std::string& name, const std::string& rule, double value) {
    throw std::invalid_argument(name + " must be " + rule + ", got " + shortest(value));
}

constexpr int kInt8SigmaBits = 3;   // s in [8, 16) where nothing asks for less: rounding adds at most 0.13 % to the variance

int ceiling_of_log2(double value) {
    const int floor = std::ilogb(value);
    return floor + (std::ldexp(1.0, floor) < value ? 1 : 0);
}

}  // namespace

void check_clip_norm(double clip_norm) {
    if (!(clip_norm > 0)) refuse("clip_norm", "> 0", clip_norm);
    if (clip_norm < kSmallestScale || clip_norm > kLargestScale) refuse("clip_norm", "in [2^-100, 2^100]", clip_norm);
}

void check_scale(const char* name, double scale) {
    if (!(scale >= 0)) refuse(name, ">= 0", scale);
    if (scale > kLargestScale) refuse(name, "<= 2^100", scale);
}

float exact_sigma(double sigma) {
    check_scale("sigma", sigma);
    if (sigma < kSmallestScale) refuse("sigma", "in [2^-100, 2^100]", sigma);
    const float rounded = static_cast<float>(sigma);
    return static_cast<double>(rounded) < sigma ? std::nextafter(rounded, INFINITY) : rounded;
}

ExactGrid exact_grid(double sigma, double clip_norm, bool half_words) {
    constexpr double kLargestNormOverSigma = 0x1p30;
    constexpr double kLargestSigmaOverNorm = 0x1p60;   // keeps underflow of X below the margin: docs/proofs/clip_norm.md
    // s in [64, 128), rounding adds at most 0.002 % to the variance; with half words in [8, 16), which adds at most 0.13 %.
    const int sigma_bits = half_words ? 3 : 6;
    constexpr int kLargestIndexBits = 21;   // clip_norm / g <= 2^21, so that float32 holds every |y| / g < 2^22
    check_clip_norm(clip_norm);
    const float rounded = exact_sigma(sigma);
    if (clip_norm > kLargestNormOverSigma * static_cast<double>(rounded)) refuse("clip_norm / sigma", "<= 2^30", clip_norm / sigma);
    if (static_cast<double>(rounded) > kLargestSigmaOverNorm * clip_norm) refuse("sigma / clip_norm", "<= 2^60", sigma / clip_norm);

    return {rounded, std::ldexp(1.0f, std::max(std::ilogb(rounded) - sigma_bits, ceiling_of_log2(clip_norm) - kLargestIndexBits))};
}

ExactGrid int8_grid(double sigma, double clip_norm) {
    constexpr int kNormBits = 6;   // clip_norm / g <= 64, half of the range
    const float rounded = exact_grid(sigma, clip_norm).sigma;
    const float grid = std::ldexp(1.0f, std::max(std::ilogb(rounded) - kInt8SigmaBits, ceiling_of_log2(clip_norm) - kNormBits));
    // Below s = 1 rounding would add more than 8.3 % to the variance.
    if (rounded < grid) refuse("sigma", ">= " + shortest(grid) + " for int8 values with clip_norm " + shortest(clip_norm), sigma);
    return {rounded, grid};
}

void check_int8(Law law, double sigma, bool exact) {
    if (law != Law::gaussian) throw std::invalid_argument("law must be gaussian for an out of int8");
    if (!exact || sigma == 0) throw std::invalid_argument("exact must be True and sigma > 0 for an out of int8");
}

ExactGrid privunit_int8_grid(double sigma, double threshold) {
    constexpr int kRangeBits = 6;   // threshold * s <= 64
    const float rounded = exact_sigma(sigma);
    const int needed = threshold > 1 ? ceiling_of_log2(threshold) : 0;
    const int sigma_bits = std::min(kInt8SigmaBits, kRangeBits - 1 - needed);   // s in [2^sigma_bits, 2^(sigma_bits + 1))
    if (!(threshold >= 0) || sigma_bits < 0) refuse("threshold", "in [0, 32] for int8 values", threshold);
    return {rounded, std::ldexp(1.0f, std::ilogb(rounded) - sigma_bits)};
}

}  // namespace hushvec
