#include "lanes/avx2.hpp"
#include "tables/kernel_table.hpp"

namespace hushvec {

constinit const Backend kAvx2Backend = make_backend<Avx2>("avx2", kAvx2GaussianBound, kAvx2LaplaceBound);

}  // namespace hushvec
