// How far the float32 level may be from the real value, in units of the grid.
//
// For s in (0, 128], |X| <= 2^21 and words inside the window, the computed d obeys
//   |d - (s Z + X - n)| <= E = constant + per_scale * s + per_radius * r,   r = s * radius (Gaussian), s * |Z| (Laplace)
// with the terms derived in docs/proofs/level1_bound.md:
//   per_scale    absolute error of the radius (the logarithm) and the width of the word's interval
//   per_radius   relative error of the radius, absolute error of cosine and sine, two float32 roundings
//   constant     the roundings of X - n, of d, and of E itself
// `check_error_bounds` (cpp/tools) runs the coded lanes over every word and measures radius and trigonometry;
// the constants below are its maxima, rounded up in the third digit.
#pragma once

#include <cstdint>

#include "dispatch/error_bound.hpp"

namespace hushvec {

// Words outside [smallest, largest] leave level 1: there the word's interval is too wide for the bound.
struct WordWindow {
    std::uint32_t smallest;
    std::uint32_t largest;
};

// Each side trades the share of words sent down (2^-14, 2^-17) against the width of the interval inside E.
inline constexpr WordWindow kGaussianWindow = {1u << 18, 0xFFFFFFFFu - (1u << 15)};
inline constexpr WordWindow kLaplaceWindow = {1u << 18, 0xFFFFFFFFu};

// Level 0 of version 3 likewise: the first interval of u and, for the radius, the last 80, next to 1.
inline constexpr WordWindow kHalfGaussianWindow = {1u << 16, 0xFFFFFFFFu - (80u << 16)};
inline constexpr WordWindow kHalfLaplaceWindow = {2, 0xFFFF};

// Measured over every word (2^32 radius and Laplace words, 2^31 angles):
//                    radius      angle       needed      Laplace needed
//   AVX-512, AVX2    2.596e-7    1.769e-7    5.557e-7    9.558e-7
//   portable         2.596e-7    2.068e-7    6.453e-7    9.558e-7
// The radius is worst at the lower window edge, where the width of the word's interval is 2.0e-7 of it.
inline constexpr ErrorBound kAvx512GaussianBound = {1.5e-7f, 6.3e-8f, 5.56e-7f};
inline constexpr ErrorBound kAvx512LaplaceBound = {1.5e-7f, 1.0e-9f, 9.56e-7f};
inline constexpr ErrorBound kAvx2GaussianBound = kAvx512GaussianBound;
inline constexpr ErrorBound kAvx2LaplaceBound = kAvx512LaplaceBound;
inline constexpr ErrorBound kNeonGaussianBound = kAvx2GaussianBound;   // the same operations, each correctly rounded
inline constexpr ErrorBound kNeonLaplaceBound = kAvx2LaplaceBound;
inline constexpr ErrorBound kPortableGaussianBound = {1.5e-7f, 6.3e-8f, 6.46e-7f};
inline constexpr ErrorBound kPortableLaplaceBound = {1.5e-7f, 1.0e-9f, 9.56e-7f};

// Level 0, measured over every half word, the larger one of AVX2 and portable lanes, which differ in the third digit at most but for exponent
// 17: the radius (of Laplace the magnitude) by exponent, which the width of the interval makes up, and cosine and sine, 5.463e-5. Added are 3
// (Laplace 2) roundoffs by radius. Exponent 16 is entry 0, 17 entry 1, where u is next to 1; there is no Laplace entry 1. Over all 2^32 words
// of a pair at s = 12.8, |d - (s Z + X - n)| is at most 0.997 of E, where u is smallest, and 0.712 at exponent 12; 0.94 % of them stay open.
// Not inline: kernels hold them by reference, and an object compiled for some instructions shares no symbol with others.
constexpr HalfWordBound kHalfGaussianBound = {
    2.5e-7f,
    {1.68e-5f, 1.64e-4f, 8.69e-2f, 3.47e-2f, 2.20e-2f, 1.07e-2f, 5.88e-3f, 3.03e-3f, 1.61e-3f, 8.47e-4f, 4.53e-4f, 2.43e-4f, 1.33e-4f,
     7.35e-5f, 4.20e-5f, 2.52e-5f},
    5.482e-5f};
constexpr HalfWordBound kHalfLaplaceBound = {
    2.5e-7f,
    {2.51e-5f, 1.0f, 4.06e-1f, 1.55e-1f, 9.54e-2f, 4.45e-2f, 2.36e-2f, 1.16e-2f, 5.87e-3f, 2.93e-3f, 1.47e-3f, 7.34e-4f, 3.69e-4f, 1.86e-4f,
     9.39e-5f, 4.80e-5f},
    1.3e-7f};

}  // namespace hushvec
