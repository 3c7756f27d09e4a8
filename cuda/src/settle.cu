#include "workspace.hpp"

#include "kernels.cuh"

namespace hushvec::cuda {
namespace {

template <class Outputs>
__global__ void __launch_bounds__(kLadderThreads) ladder_kernel(const __grid_constant__ LadderBody<Outputs> body) {
    body.run(blockIdx.x, gridDim.x, DeviceTeam{});
}

template <class Outputs>
__global__ void __launch_bounds__(1) settle_kernel(const __grid_constant__ SettleBody<Outputs> body) { body.run(); }

float in_grids(ExactGrid grid) { return grid.sigma / grid.grid; }

OneOutput one(const CallStream& source, const OutArgument& out, ExactGrid grid) { return {source, {out.data, out.dtype, out.count, grid.grid}}; }

template <class Outputs>
cudaError_t launch_ladder(const Outputs& outputs, Law law, ExactGrid grid, const Workspace& workspace, cudaStream_t stream) {
    const LadderBody<Outputs> body = {outputs, law == Law::gaussian, in_grids(grid), workspace.open_pairs(), workspace.open_samples()};
    const unsigned blocks = striding_blocks(divide_up(2 * std::size_t{workspace.pair_capacity}, kLadderThreads));
    return launch<ladder_kernel<Outputs>>(dim3(blocks), kLadderThreads, 0, stream, body);
}

template <class Outputs>
cudaError_t launch_settle(const Outputs& outputs, Law law, ExactGrid grid, const Workspace& workspace, cudaStream_t stream) {
    const SettleBody<Outputs> body = {outputs, law == Law::gaussian, in_grids(grid), workspace.open_samples()};
    return launch<settle_kernel<Outputs>>(dim3(1), 1, 0, stream, body);
}

}  // namespace

cudaError_t run_ladder(const CallStream& source, const OutArgument& out, Law law, ExactGrid grid, const Workspace& workspace, cudaStream_t stream) {
    const OneOutput outputs = one(source, out, grid);
    const cudaError_t error = launch_ladder(outputs, law, grid, workspace, stream);
    return error != cudaSuccess || source.state == nullptr ? error : launch_settle(outputs, law, grid, workspace, stream);
}

cudaError_t run_ladder(const SumParts& parts, ExactGrid grid, const Workspace& workspace, cudaStream_t stream) {
    return launch_ladder(parts, Law::gaussian, grid, workspace, stream);
}

cudaError_t run_settle(const SumParts& parts, ExactGrid grid, const Workspace& workspace, cudaStream_t stream) {
    return launch_settle(parts, Law::gaussian, grid, workspace, stream);
}

cudaError_t settle(const KeyStream& source, const OutArgument& out, Law law, ExactGrid grid, void* memory, cudaStream_t stream) {
    return launch_settle(one(CallStream{source}, out, grid), law, grid, Workspace(memory, out.count), stream);
}

}  // namespace hushvec::cuda
