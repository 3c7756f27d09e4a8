#include "workspace.hpp"

#include "kernels.cuh"

namespace hushvec::cuda {
namespace {

__global__ void __launch_bounds__(kLadderThreads) ladder_kernel(const __grid_constant__ LadderBody body) {
    body.run(blockIdx.x, gridDim.x, DeviceTeam{});
}

__global__ void __launch_bounds__(1) settle_kernel(const __grid_constant__ SettleBody body) { body.run(); }

float in_grids(ExactGrid grid) { return grid.sigma / grid.grid; }

SettledOutput settled(const OutArgument& out, ExactGrid grid) { return {out.data, out.dtype, out.count, grid.grid}; }

cudaError_t run_settle(const CallStream& source, const OutArgument& out, Law law, ExactGrid grid, const Workspace& workspace, cudaStream_t stream) {
    const SettleBody body = {source, law == Law::gaussian, in_grids(grid), workspace.open_samples(), settled(out, grid)};
    return launch<settle_kernel>(dim3(1), 1, 0, stream, body);
}

}  // namespace

cudaError_t run_ladder(const CallStream& source, const OutArgument& out, Law law, ExactGrid grid, const Workspace& workspace, cudaStream_t stream) {
    const LadderBody body = {source, law == Law::gaussian, in_grids(grid), workspace.open_pairs(), workspace.open_samples(), settled(out, grid)};
    const unsigned blocks = striding_blocks(divide_up(2 * std::size_t{workspace.pair_capacity}, kLadderThreads));
    const cudaError_t error = launch<ladder_kernel>(dim3(blocks), kLadderThreads, 0, stream, body);
    if (error != cudaSuccess || source.state == nullptr) return error;
    return run_settle(source, out, law, grid, workspace, stream);
}

cudaError_t settle(const KeyStream& source, const OutArgument& out, Law law, ExactGrid grid, void* memory, cudaStream_t stream) {
    return run_settle(CallStream{source}, out, law, grid, Workspace(memory, out.count), stream);
}

}  // namespace hushvec::cuda
