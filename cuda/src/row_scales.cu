#include "rows.cuh"

namespace hushvec::cuda {

cudaError_t launch_row_scales(const RowsArgument& rows, double clip_norm, double unit, const Workspace& workspace, cudaStream_t stream) {
    return with_stored_type(rows.dtype, [&]<class Stored>(Stored) {
        using Body = RowScalesBody<Stored>;
        const Body body = {static_cast<const Stored*>(rows.x), rows.rows, rows.columns, clip_norm, unit,
                           reinterpret_cast<Wide<Stored>*>(workspace.rest), workspace.report()};
        return launch<warps_kernel<Body>>(dim3(static_cast<unsigned>(divide_up(rows.rows, kStreamWarps))), kStreamThreads, 0, stream, body);
    });
}

}  // namespace hushvec::cuda
