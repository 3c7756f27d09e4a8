// The two ways to work on clipped rows, for any work.
#pragma once

#include <algorithm>
#include <optional>

#include "kernels.cuh"
#include "tile_shape.hpp"
#include "workspace.hpp"

namespace hushvec::cuda {

// Bytes of shared memory for a tile on the current device: three at least on a multiprocessor, so that one is loaded while others work.
inline std::size_t most_tile_bytes() {
    constexpr std::size_t kTiles = 3, kReserved = 1024;   // what the system takes of every block's share
    int device = 0, of_multiprocessor = 0, of_block = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return 0;
    if (cudaDeviceGetAttribute(&of_multiprocessor, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device) != cudaSuccess) return 0;
    if (cudaDeviceGetAttribute(&of_block, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess) return 0;
    return std::min(static_cast<std::size_t>(of_multiprocessor) / kTiles - kReserved, static_cast<std::size_t>(of_block));
}

// The shape of tiles on the current device, none for rows that are to be streamed.
template <class Stored, class Tiles = TilesOfGroups>
auto device_tile_shape(const RowsArgument& rows) {
    return tile_shape<Stored, Tiles>(rows.rows, rows.columns, most_tile_bytes());
}

// Rows by tiles in shared memory.
template <class Stored, class Work>
cudaError_t launch_tiles(const RowsArgument& rows, const TileShape<Work::kSpan>& shape, double clip_norm, double unit, const Work& work,
                         const Workspace& workspace, cudaStream_t stream) {
    using Body = RowsBody<Stored, Work>;
    const Body body = {static_cast<const Stored*>(rows.x), static_cast<Stored*>(rows.out), shape, clip_norm, unit, work, workspace.report()};
    // The most that any shape needs: another thread's call must not find less allowed than it asks for.
    const cudaError_t error =
        cudaFuncSetAttribute(rows_kernel<Stored, Body>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(most_tile_bytes()));
    if (error != cudaSuccess) return error;
    const dim3 tiles(static_cast<unsigned>(shape.tiles()));
    return launch<rows_kernel<Stored, Body>>(tiles, Work::kThreads, TileMemory<Stored>::template bytes<Work>(shape), stream, body);
}

// The scale of every row, of its stored type's wide form, into the workspace. row_scales.cu.
cudaError_t launch_row_scales(const RowsArgument& rows, double clip_norm, double unit, const Workspace& workspace, cudaStream_t stream);

}  // namespace hushvec::cuda
