// What the CUDA backend offers: launchers that take device pointers, sizes and a stream, and return without waiting.
//
// Same key, nonce and index give the same bits as the CPU core in the exact grade. Arrays are row-major and contiguous.
// Arguments are taken as checked (bindings check them); an error of the launch itself is the return value.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "hushvec/array.hpp"
#include "hushvec/clip.hpp"
#include "hushvec/clipped_sum.hpp"
#include "hushvec/keystream.hpp"
#include "hushvec/noise.hpp"
#include "hushvec_cuda/source.hpp"

namespace hushvec::cuda {

// Bytes of device memory a call needs besides its arrays, aligned to 256: Report first, then room that no one else may use.
// The launchers set it up themselves.
std::size_t workspace_bytes(std::size_t rows, std::size_t columns, DType dtype);

// The samples of a call's result, in order.
struct OutArgument {
    void* data;
    DType dtype;
    std::size_t count;
};

// out = scale * Z: float32, float64, float16 or bfloat16. Law::gaussian or Law::laplacian. The workspace, of fill_workspace_bytes(), is
// only for a source whose stream is in a state; null otherwise.
cudaError_t fill_noise(const NoiseSource& source, Law law, double scale, const OutArgument& out, void* workspace, cudaStream_t stream);
std::size_t fill_workspace_bytes();

// Rows of one matrix; out may be x.
struct RowsArgument {
    const void* x;
    void* out;
    DType dtype;
    std::size_t rows;
    std::size_t columns;
};

// A row with NaN or Inf counts as a row of zeros and is reported.
cudaError_t clip(const RowsArgument& rows, double clip_norm, void* workspace, cudaStream_t stream);

// grid.grid = 0 is the float grade. Law::gaussian or Law::laplacian. Bad rows as in clip. With `whole` the values are not
// multiplied by the grid: whole numbers for int8_values, and in_grid_units(grid) is what settle takes. Where
// is_half_words(source), `grid` is that of version 3, s < 16: a finer one leaves more open than there is room for.
cudaError_t clip_and_noise(const NoiseSource& source, const RowsArgument& rows, double clip_norm, double sigma, Law law, ExactGrid grid,
                           void* workspace, cudaStream_t stream, bool whole = false);

// out = clip(x) + L2-Laplace noise, or the noise alone where rows.x is null. Float grade. Bad rows as in clip. The workspace also holds
// the standard normals of the whole call.
cudaError_t l2_laplace(const NoiseSource& source, const RowsArgument& rows, double clip_norm, double scale, void* workspace, cudaStream_t stream);
std::size_t l2_laplace_workspace_bytes(std::size_t rows, std::size_t columns, DType dtype);

// The exact grade leaves some 4 samples in 10^13 to the multiprecision level, listed in the workspace. A call that draws from a state
// settles them itself; after any other, settle must follow once Report::open_samples is seen to be above 0.
cudaError_t settle(const KeyStream& source, const OutArgument& out, Law law, ExactGrid grid, void* workspace, cudaStream_t stream);

// Sums of clipped rows (docs/format.md section 7). A row is cut into parts, each a matrix of its own, and rows come in any number of
// batches: sum_scales for a batch, add_to_sum for each of its parts, and release_sums for all parts at the end.
struct PartArgument {
    const void* x;
    DType dtype;
    std::size_t rows;
    std::size_t columns;
};

// How much of each row enters the sum, by the norm of all its parts, into the workspace, which the batch's add_to_sum read.
// The report names the first row with NaN or Inf.
cudaError_t sum_scales(std::span<const PartArgument> parts, double clip_norm, void* workspace, cudaStream_t stream);
std::size_t sum_scales_workspace_bytes(std::span<const PartArgument> parts);

// sums[columns] += the part of the batch's rows, in whole units.
cudaError_t add_to_sum(const PartArgument& part, const void* workspace, double* sums, cudaStream_t stream);

// The sums of one part and where they are released to.
struct SumArgument {
    const double* sums;
    float* out;
    std::size_t columns;
};

// out[columns] = the sums plus Gaussian noise, exactly rounded to the grid, of all parts at once. Part i draws from nonce source.nonce + i.
// Where source.half_words, `grid` is that of version 3.
// settle_sums must follow once Report::open_samples is seen to be above 0.
cudaError_t release_sums(const KeyStream& source, std::span<const SumArgument> parts, double clip_norm, ExactGrid grid, void* workspace,
                         cudaStream_t stream);
cudaError_t settle_sums(const KeyStream& source, std::span<const SumArgument> parts, ExactGrid grid, void* workspace, cudaStream_t stream);
std::size_t release_sums_workspace_bytes(std::span<const SumArgument> parts);

// The same with the noise sigma (c_1 Z_1 + ... + c_p Z_p), rounded once. Each part has groups of its own in every stream, behind those of the
// parts before it. Of `terms`, at most kMostNoiseTerms have a coefficient that is not 0, and check_noise_terms has passed them.
cudaError_t release_correlated(std::span<const NoiseTerm> terms, std::span<const SumArgument> parts, double clip_norm, ExactGrid grid,
                               void* workspace, cudaStream_t stream);
cudaError_t settle_correlated(std::span<const NoiseTerm> terms, std::span<const SumArgument> parts, ExactGrid grid, void* workspace,
                              cudaStream_t stream);
std::size_t release_correlated_workspace_bytes(std::span<const float> coefficients, std::span<const SumArgument> parts);

// Loads every kernel onto the current device. The driver loads one at its first launch otherwise, which a graph capture must not contain.
cudaError_t load_kernels();

}  // namespace hushvec::cuda
