// How far level 1 may be off on a device: noise/error_bounds.hpp with the constants of Thread.
//
// Measured over every word on the host, where Thread is the same operations with a correctly rounded square root
// (check_error_bounds): radius 2.596e-7, angle 1.769e-7, Laplace 8.366e-7, as AVX-512; needed 6.154e-7 and 9.558e-7 with the
// device's worse square root counted in.
#pragma once

#include "noise/error_bounds.hpp"

namespace hushvec::cuda {

// How much more than correct rounding the device's square root may be off, relative: 2^-23 against 2^-24.
inline constexpr double kDeviceRootExcess = 0x1p-24;

inline constexpr ErrorBound kGaussianBound = {1.5e-7f, 6.3e-8f, 6.16e-7f};
inline constexpr ErrorBound kLaplaceBound = {1.5e-7f, 1.0e-9f, 9.56e-7f};

}  // namespace hushvec::cuda
