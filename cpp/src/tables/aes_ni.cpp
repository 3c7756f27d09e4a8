#include "lanes/aes/ni.hpp"
#include "rng/aes.hpp"

namespace hushvec {

constinit const AesKernels kAesNi = make_aes_kernels<AesNi>("aesni");

}  // namespace hushvec
