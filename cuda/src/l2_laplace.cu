#include "device/l2_laplace_body.hpp"

#include "rows.cuh"

namespace hushvec::cuda {
namespace {

// What lies behind the workspace of a clip: the rows' factors, then normals, of the elements' wide form.
struct L2Memory {
    double* factors;
    std::byte* normals;

    static std::size_t bytes(const RowsArgument& rows) { return factor_bytes(rows) + aligned_bytes(rows.rows * rows.columns * item_size(wide_dtype(rows))); }
    L2Memory(void* memory, const RowsArgument& rows) {
        std::byte* const behind = static_cast<std::byte*>(memory) + workspace_bytes(rows.rows, rows.columns, rows.dtype);
        factors = reinterpret_cast<double*>(behind);
        normals = behind + factor_bytes(rows);
    }
    static DType wide_dtype(const RowsArgument& rows) { return rows.dtype == DType::float64 ? DType::float64 : DType::float32; }

private:
    static std::size_t factor_bytes(const RowsArgument& rows) { return aligned_bytes(rows.rows * sizeof(double)); }
};

template <class Stored>
cudaError_t launch_l2_laplace(const CallStream& taken, const RowsArgument& rows, double scale, const Workspace& workspace, const L2Memory& memory,
                              cudaStream_t stream) {
    const std::size_t samples = rows.rows * rows.columns;
    cudaError_t error = fill_from(taken, Law::gaussian, 1.0, {memory.normals, L2Memory::wide_dtype(rows), samples}, stream);
    if (error != cudaSuccess) return error;
    const auto* const normals = reinterpret_cast<const Wide<Stored>*>(memory.normals);
    using Factors = L2FactorsBody<Wide<Stored>>;
    error = launch<warps_kernel<Factors>>(dim3(static_cast<unsigned>(divide_up(rows.rows, kStreamWarps))), kStreamThreads, 0, stream,
                                          Factors{taken, normals, rows.rows, rows.columns, scale, memory.factors});
    if (error != cudaSuccess) return error;
    using Body = L2RowsBody<Stored>;
    const Body body = {static_cast<const Stored*>(rows.x), static_cast<Stored*>(rows.out), samples, rows.columns,
                       reinterpret_cast<const Wide<Stored>*>(workspace.rest), normals, memory.factors};
    error = launch<stream_kernel<Body>>(dim3(striding_blocks(divide_up(samples, kStreamThreads))), kStreamThreads, 0, stream, body);
    // Whoever gets this memory next could take the noise off the rows.
    return error != cudaSuccess ? error : cudaMemsetAsync(memory.factors, 0, L2Memory::bytes(rows), stream);
}

}  // namespace

std::size_t l2_laplace_workspace_bytes(std::size_t rows, std::size_t columns, DType dtype) {
    return workspace_bytes(rows, columns, dtype) + L2Memory::bytes({nullptr, nullptr, dtype, rows, columns});
}

cudaError_t l2_laplace(const NoiseSource& source, const RowsArgument& rows, double clip_norm, double scale, void* memory, cudaStream_t stream) {
    const std::size_t samples = rows.rows * rows.columns;
    const Workspace workspace(memory, samples);
    CallStream taken;
    cudaError_t error = reset(workspace.header, stream);
    if (error == cudaSuccess) error = take(source, &workspace.header->nonce, stream, taken);
    if (error != cudaSuccess || samples == 0) return error;
    if (rows.x != nullptr) error = launch_row_scales(rows, clip_norm, 1.0, workspace, stream);
    if (error != cudaSuccess) return error;
    return with_stored_type(rows.dtype, [&]<class Stored>(Stored) {
        return launch_l2_laplace<Stored>(taken, rows, scale, workspace, L2Memory(memory, rows), stream);
    });
}

}  // namespace hushvec::cuda
