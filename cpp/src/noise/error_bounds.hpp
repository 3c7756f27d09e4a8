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

}  // namespace hushvec
