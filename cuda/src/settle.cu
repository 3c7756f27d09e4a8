#include "workspace.hpp"

#include "kernels.cuh"

namespace hushvec::cuda {
namespace {

__global__ void __launch_bounds__(1) settle_kernel(const __grid_constant__ SettleBody body) { body.run(); }

}  // namespace

cudaError_t settle_taken(const CallStream& source, const OutArgument& out, Law law, ExactGrid grid, const Workspace& workspace, cudaStream_t stream) {
    const SettleBody body = {source, law == Law::gaussian, grid.sigma / grid.grid, grid.grid, workspace.open_samples(), out.data, out.dtype, out.count};
    return launch<settle_kernel>(dim3(1), 1, 0, stream, body);
}

cudaError_t settle(const KeyStream& source, const OutArgument& out, Law law, ExactGrid grid, void* workspace, cudaStream_t stream) {
    return settle_taken(CallStream{source}, out, law, grid, Workspace(workspace), stream);
}

}  // namespace hushvec::cuda
