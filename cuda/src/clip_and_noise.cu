#include "clip_and_noise.cuh"

namespace hushvec::cuda {

std::size_t workspace_bytes(std::size_t rows, std::size_t columns, DType dtype) {
    return with_stored_type(dtype, [&]<class Stored>(Stored) {
        const std::size_t scales = aligned_bytes(rows * sizeof(Wide<Stored>));   // if rows are streamed
        return Workspace::fixed_bytes(PairCapacity{open_row_pair_capacity(rows * columns)}) + scales;
    });
}

cudaError_t clip_and_noise(const NoiseSource& source, const RowsArgument& rows, double clip_norm, double sigma, Law law, ExactGrid grid,
                           void* memory, cudaStream_t stream, bool whole) {
    const std::size_t samples = rows.rows * rows.columns;
    const Workspace workspace(memory, PairCapacity{open_row_pair_capacity(samples)});
    CallStream taken;
    cudaError_t error = reset(workspace.header, stream);
    if (error == cudaSuccess) error = take(source, &workspace.header->nonce, stream, taken);
    if (error != cudaSuccess || samples == 0) return error;
    const bool gaussian = law == Law::gaussian;
    const NoiseCall call = {taken, rows, clip_norm, grid.grid != 0 ? double{grid.grid} : 1.0, workspace, stream};
    if (grid.grid == 0) return gaussian ? float_gaussian(call, sigma) : float_laplace(call, sigma);
    const float s = grid.sigma / grid.grid;
    const ExactGrid written = whole ? in_grid_units(grid) : grid;
    const OutArgument out = {rows.out, rows.dtype, samples};
    if (is_half_words(source)) {
        error = gaussian ? half_gaussian(call, s, written.grid) : half_laplace(call, s, written.grid);
        return error != cudaSuccess ? error : run_refinement(taken, out, law, written, workspace, stream);
    }
    error = gaussian ? exact_gaussian(call, s, written.grid) : exact_laplace(call, s, written.grid);
    return error != cudaSuccess ? error : run_ladder(taken, out, law, written, workspace, stream);
}

}  // namespace hushvec::cuda
