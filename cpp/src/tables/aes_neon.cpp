#include "lanes/aes/neon.hpp"
#include "rng/aes.hpp"

namespace hushvec {

constinit const AesKernels kAesNeon = make_aes_kernels<AesNeon>("neon");

}  // namespace hushvec
