#include "hushvec_cuda/privunit.hpp"

#include "kernels.cuh"
#include "privunit_workspace.hpp"

namespace hushvec::cuda {
namespace {

__global__ void __launch_bounds__(kComponentThreads) component_kernel(const __grid_constant__ ComponentBody body) {
    body.run(blockIdx.x, gridDim.x, DeviceTeam{});
}

constexpr unsigned kPrivUnitBlocks = 10;   // of a multiprocessor: 96 registers a thread; with 12, one architecture spills

template <class Stored>
__global__ void __launch_bounds__(kPrivUnitThreads, kPrivUnitBlocks) privunit_kernel(const __grid_constant__ PrivUnitBody<Stored> body) {
    extern __shared__ uint4 dynamic_memory[];
    __shared__ PrivUnitRowState state;
    body.run(blockIdx.x, gridDim.x, PrivUnitMemory<Stored>(dynamic_memory, body.shape), state, DeviceTeam{});
}

template <class Stored>
__global__ void __launch_bounds__(kPrivUnitThreads, kPrivUnitBlocks) privunit_in_workspace_kernel(const __grid_constant__ PrivUnitBody<Stored> body,
                                                                                                  std::byte* scratch, std::size_t scratch_bytes) {
    __shared__ PrivUnitRowState state;
    const PrivUnitMemory<Stored> memory(scratch + blockIdx.x * scratch_bytes, body.shape);
    body.run(blockIdx.x, gridDim.x, memory, state, DeviceTeam{});
    // Whoever gets this memory next could take the noise off a row.
    auto* const piece = reinterpret_cast<uint4*>(scratch + blockIdx.x * scratch_bytes);
    for (std::size_t i = threadIdx.x; i < scratch_bytes / sizeof(uint4); i += kPrivUnitThreads) piece[i] = uint4{};
}

template <class Stored>
cudaError_t launch_rows(const PrivUnitBody<Stored>& body, const PrivUnitWorkspace& workspace, cudaStream_t stream) {
    if (workspace.scratch_bytes == 0) {
        const std::size_t shared = PrivUnitMemory<Stored>::bytes(body.shape);
        return launch<privunit_kernel<Stored>>(dim3(striding_blocks(body.shape.rows, 2 * kPrivUnitBlocks)), kPrivUnitThreads, shared, stream, body);
    }
    return launch<privunit_in_workspace_kernel<Stored>>(dim3(static_cast<unsigned>(workspace.blocks)), kPrivUnitThreads, 0, stream, body,
                                                        workspace.scratch, workspace.scratch_bytes);
}

PrivUnitShape shape_of(std::size_t rows, std::size_t columns) { return {rows, static_cast<std::uint32_t>(columns)}; }

}  // namespace

std::size_t privunit_workspace_bytes(std::size_t rows, std::size_t columns, DType dtype) {
    if (rows * columns == 0) return aligned_bytes(sizeof(Report));
    return with_stored_type(dtype, [&](auto stored) { return PrivUnitWorkspace::of(nullptr, shape_of(rows, columns), stored).bytes; });
}

cudaError_t privunit(const KeyStream& stream, const RowsArgument& rows, PrivUnitLaw law, ExactGrid grid, void* memory, cudaStream_t cuda_stream) {
    if (const cudaError_t error = reset_report(static_cast<Report*>(memory), cuda_stream); error != cudaSuccess) return error;
    if (rows.rows * rows.columns == 0) return cudaSuccess;
    const float s = grid.sigma / grid.grid;
    return with_stored_type(rows.dtype, [&]<class Stored>(Stored stored) {
        const PrivUnitShape shape = shape_of(rows.rows, rows.columns);
        const PrivUnitWorkspace workspace = PrivUnitWorkspace::of(memory, shape, stored);
        const ComponentBody components = {stream, law, rows.rows, workspace.components};
        const unsigned blocks = striding_blocks(divide_up(rows.rows, kComponentThreads));
        const cudaError_t error = launch<component_kernel>(dim3(blocks), kComponentThreads, 0, cuda_stream, components);
        if (error != cudaSuccess) return error;
        const level_one::Limits limits = level_one::limits_of(kUnitNormalBound, double{s}, 1.0);
        const PrivUnitBody<Stored> body = {stream, static_cast<const Stored*>(rows.x), static_cast<Stored*>(rows.out), shape, s, grid.grid,
                                           limits, workspace.components, workspace.open_rows, PrivUnitTrial{}};
        return launch_rows(body, workspace, cuda_stream);
    });
}

}  // namespace hushvec::cuda
