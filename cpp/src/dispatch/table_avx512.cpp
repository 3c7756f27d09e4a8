#include "dispatch/kernel_table.hpp"
#include "lanes/avx512.hpp"

namespace hushvec {

constinit const Kernels kAvx512Kernels = make_kernels<Avx512>("avx512", kAvx512GaussianBound, kAvx512LaplaceBound);

}  // namespace hushvec
