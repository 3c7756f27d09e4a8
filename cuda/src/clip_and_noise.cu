#include "clip_and_noise.cuh"

namespace hushvec::cuda {

std::size_t workspace_bytes(std::size_t rows, std::size_t columns, DType dtype) {
    return with_stored_type(dtype, [&]<class Stored>(Stored) {
        const bool by_tiles = sizeof(Stored) <= sizeof(float) && tile_shape<Stored>(rows, columns).has_value();
        return Workspace::kFixedBytes + (by_tiles ? 0 : aligned_bytes(rows * sizeof(Wide<Stored>)));
    });
}

cudaError_t clip_and_noise(const NoiseSource& source, const RowsArgument& rows, double clip_norm, double sigma, Law law, ExactGrid grid,
                           void* memory, cudaStream_t stream) {
    const Workspace workspace(memory);
    CallStream taken;
    cudaError_t error = workspace.reset(stream);
    if (error == cudaSuccess) error = take(source, workspace.nonce, stream, taken);
    if (error == cudaSuccess && rows.rows * rows.columns > 0) {
        const bool gaussian = law == Law::gaussian, exact = grid.grid != 0;
        const NoiseCall call = {taken, rows, clip_norm, exact ? double{grid.grid} : 1.0, workspace, stream};
        const float s = exact ? grid.sigma / grid.grid : 0;
        if (exact) {
            error = gaussian ? exact_gaussian(call, s, grid.grid) : exact_laplace(call, s, grid.grid);
        } else {
            error = gaussian ? float_gaussian(call, sigma) : float_laplace(call, sigma);
        }
    }
    if (error != cudaSuccess || source.state == nullptr || grid.grid == 0) return error;
    return settle_taken(taken, {rows.out, rows.dtype, rows.rows * rows.columns}, law, grid, workspace, stream);
}

}  // namespace hushvec::cuda
