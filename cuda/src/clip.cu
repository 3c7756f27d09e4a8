#include "rows.cuh"

namespace hushvec::cuda {
namespace {

template <class Stored>
cudaError_t clip_stored(const RowsArgument& rows, double clip_norm, const Workspace& workspace, cudaStream_t stream) {
    if (const auto shape = device_tile_shape<Stored>(rows)) {
        return launch_tiles<Stored>(rows, *shape, clip_norm, 1.0, ClipWork<Stored>{}, workspace, stream);
    }
    const cudaError_t error = launch_row_scales(rows, clip_norm, 1.0, workspace, stream);
    if (error != cudaSuccess) return error;
    using Body = StreamClipBody<Stored>;
    const Body body = {static_cast<const Stored*>(rows.x), static_cast<Stored*>(rows.out), rows.rows, rows.columns,
                       reinterpret_cast<const Wide<Stored>*>(workspace.rest)};
    return launch<stream_kernel<Body>>(dim3(striding_blocks(rows.rows)), kStreamThreads, 0, stream, body);
}

}  // namespace

cudaError_t clip(const RowsArgument& rows, double clip_norm, void* memory, cudaStream_t stream) {
    const Workspace workspace(memory, rows.rows * rows.columns);
    const cudaError_t error = reset(workspace.header, stream);
    if (error != cudaSuccess || rows.rows * rows.columns == 0) return error;
    return with_stored_type(rows.dtype, [&]<class Stored>(Stored) { return clip_stored<Stored>(rows, clip_norm, workspace, stream); });
}

}  // namespace hushvec::cuda
