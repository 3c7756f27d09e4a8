#include "dispatch/kernel_table.hpp"
#include "lanes/portable.hpp"

namespace hushvec {

constinit const Kernels kPortableKernels = make_kernels<Portable>("portable", kPortableGaussianBound, kPortableLaplaceBound);

}  // namespace hushvec
