#include "lanes/portable.hpp"
#include "tables/kernel_table.hpp"

namespace hushvec {

constinit const Backend kPortableBackend = make_backend<Portable>("portable", kPortableGaussianBound, kPortableLaplaceBound);

}  // namespace hushvec
