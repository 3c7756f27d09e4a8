#include "kernels.cuh"
#include "workspace.hpp"

namespace hushvec::cuda {
namespace {

// The one kernel that needs 1.5 KB of stack a thread, for which the driver sets memory aside: launched where it must be.
__global__ void __launch_bounds__(1) settle_kernel(const __grid_constant__ SettleBody body) { body.run(); }

__global__ void __launch_bounds__(1) advance_kernel(DeviceStream* stream) { ++stream->nonce; }

}  // namespace

cudaError_t settle(const NoiseSource& source, void* out, DType dtype, Law law, ExactGrid grid, void* workspace, cudaStream_t stream) {
    const SettleBody body = {source, law == Law::gaussian, grid.sigma / grid.grid, grid.grid, Workspace(workspace).open_samples(), out, dtype};
    return launch(settle_kernel, dim3(1), 1, 0, stream, body);
}

cudaError_t finish(const NoiseSource& source, void* out, DType dtype, Law law, ExactGrid grid, void* workspace, cudaStream_t stream) {
    if (source.in_memory == nullptr) return cudaSuccess;
    if (grid.grid != 0) {
        const cudaError_t error = settle(source, out, dtype, law, grid, workspace, stream);
        if (error != cudaSuccess) return error;
    }
    return launch(advance_kernel, dim3(1), 1, 0, stream, source.in_memory);
}

}  // namespace hushvec::cuda
