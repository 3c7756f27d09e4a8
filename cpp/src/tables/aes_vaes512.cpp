#include "lanes/aes/vaes512.hpp"
#include "rng/aes.hpp"

namespace hushvec {

constinit const AesKernels kAesVaes512 = make_aes_kernels<Vaes512>("vaes512");

}  // namespace hushvec
