#include "kernels.cuh"

namespace hushvec::cuda {
namespace {

__global__ void __launch_bounds__(1) take_kernel(DeviceStream* state, std::uint64_t* nonce) { take_nonce(state, nonce); }

}  // namespace

cudaError_t take(const NoiseSource& source, std::uint64_t* nonce, cudaStream_t stream, CallStream& taken) {
    taken = {source.stream, source.state, nonce};
    return source.state == nullptr ? cudaSuccess : launch<take_kernel>(dim3(1), 1, 0, stream, source.state, nonce);
}

}  // namespace hushvec::cuda
