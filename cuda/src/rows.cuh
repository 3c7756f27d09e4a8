// The two ways to work on clipped rows, for any work.
#pragma once

#include "kernels.cuh"
#include "tile_shape.hpp"
#include "workspace.hpp"

namespace hushvec::cuda {

// Rows by tiles in shared memory.
template <class Stored, class Work>
cudaError_t launch_tiles(const RowsArgument& rows, const TileShape& shape, double clip_norm, double unit, const Work& work,
                         const Workspace& workspace, cudaStream_t stream) {
    using Body = RowsBody<Stored, Work>;
    const Body body = {static_cast<const Stored*>(rows.x), static_cast<Stored*>(rows.out), shape, clip_norm, unit, work, workspace.report()};
    // The most that any shape needs: another thread's call must not find less allowed than it asks for.
    const cudaError_t error =
        cudaFuncSetAttribute(rows_kernel<Stored, Body>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kMostTileBytes));
    if (error != cudaSuccess) return error;
    return launch<rows_kernel<Stored, Body>>(dim3(static_cast<unsigned>(shape.tiles())), kTileThreads, TileMemory<Stored>::bytes(shape), stream, body);
}

// The scale of every row, of its stored type's wide form, into the workspace. row_scales.cu.
cudaError_t launch_row_scales(const RowsArgument& rows, double clip_norm, double unit, const Workspace& workspace, cudaStream_t stream);

}  // namespace hushvec::cuda
