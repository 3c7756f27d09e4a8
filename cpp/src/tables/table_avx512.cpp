#include "lanes/avx512.hpp"
#include "tables/kernel_table.hpp"

namespace hushvec {

constinit const Backend kAvx512Backend = make_backend<Avx512>("avx512", kAvx512GaussianBound, kAvx512LaplaceBound);

}  // namespace hushvec
