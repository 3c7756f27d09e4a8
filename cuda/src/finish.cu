#include "kernels.cuh"

namespace hushvec::cuda {
namespace {

__global__ void __launch_bounds__(1) settle_kernel(const __grid_constant__ SettleBody body) { body.run(); }

__global__ void __launch_bounds__(1) advance_kernel(DeviceStream* stream) { ++stream->nonce; }

}  // namespace

cudaError_t settle_open_samples(const SettleBody& body, cudaStream_t stream) {
    return launch(settle_kernel, dim3(1), 1, 0, stream, body);
}

cudaError_t advance(const NoiseSource& source, cudaStream_t stream) {
    if (source.in_memory == nullptr) return cudaSuccess;
    return launch(advance_kernel, dim3(1), 1, 0, stream, source.in_memory);
}

}  // namespace hushvec::cuda
