#include "dispatch/kernel_table.hpp"
#include "lanes/avx2.hpp"

namespace hushvec {

constinit const Kernels kAvx2Kernels = make_kernels<Avx2>("avx2", kAvx2GaussianBound, kAvx2LaplaceBound);

}  // namespace hushvec
