#include "lanes/neon.hpp"
#include "tables/kernel_table.hpp"

namespace hushvec {

constinit const Backend kNeonBackend = make_backend<Neon>("neon", kNeonGaussianBound, kNeonLaplaceBound);

}  // namespace hushvec
