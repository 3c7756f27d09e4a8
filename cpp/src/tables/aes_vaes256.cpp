#include "lanes/aes/vaes256.hpp"
#include "rng/aes.hpp"

namespace hushvec {

constinit const AesKernels kAesVaes256 = make_aes_kernels<Vaes256>("vaes256");

}  // namespace hushvec
