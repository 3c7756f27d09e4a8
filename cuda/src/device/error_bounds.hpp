// How far level 1 may be off on a device: noise/error_bounds.hpp with the constants of Thread.
//
// Measured over every word on the host, where Thread is the same operations with a correctly rounded square root
// (check_error_bounds): needed 5.56e-7 of the radius. The device's root may be off by 2^-23 - 2^-24 = 6.0e-8 more.
#pragma once

#include "noise/error_bounds.hpp"

namespace hushvec::cuda {

inline constexpr ErrorBound kGaussianBound = {1.5e-7f, 6.3e-8f, 6.3e-7f};
inline constexpr ErrorBound kLaplaceBound = {1.5e-7f, 1.0e-9f, 9.7e-7f};

}  // namespace hushvec::cuda
