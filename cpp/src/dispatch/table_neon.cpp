#include "dispatch/kernel_table.hpp"
#include "lanes/neon.hpp"

namespace hushvec {

constinit const Kernels kNeonKernels = make_kernels<Neon>("neon", kNeonGaussianBound, kNeonLaplaceBound);

}  // namespace hushvec
