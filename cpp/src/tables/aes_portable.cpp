#include "lanes/aes/bitsliced.hpp"
#include "rng/aes.hpp"

namespace hushvec {

constinit const AesKernels kAesPortable = make_aes_kernels<Bitsliced>("portable");

}  // namespace hushvec
