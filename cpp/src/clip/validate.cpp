#include "clip/validate.hpp"

#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "hushvec/clip.hpp"

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

ExactGrid exact_grid(double sigma, double clip_norm) {
    constexpr double kLargestNormOverSigma = 0x1p30;
    constexpr double kLargestSigmaOverNorm = 0x1p60;   // keeps underflow of X below the margin: docs/proofs/clip_norm.md
    constexpr int kSigmaBits = 6;        // s in [64, 128): rounding adds at most 0.002 % to the variance
    constexpr int kLargestIndexBits = 21;   // clip_norm / g <= 2^21, so that float32 holds every |y| / g < 2^22
    check_clip_norm(clip_norm);
    const float rounded = exact_sigma(sigma);
    if (clip_norm > kLargestNormOverSigma * static_cast<double>(rounded)) refuse("clip_norm / sigma", "<= 2^30", clip_norm / sigma);
    if (static_cast<double>(rounded) > kLargestSigmaOverNorm * clip_norm) refuse("sigma / clip_norm", "<= 2^60", sigma / clip_norm);

    const int from_sigma = std::ilogb(rounded) - kSigmaBits;
    const int floor_of_norm = std::ilogb(clip_norm);
    const int ceiling_of_norm = floor_of_norm + (std::ldexp(1.0, floor_of_norm) < clip_norm ? 1 : 0);
    return {rounded, std::ldexp(1.0f, std::max(from_sigma, ceiling_of_norm - kLargestIndexBits))};
}

}  // namespace hushvec
