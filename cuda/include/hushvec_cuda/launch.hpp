// What the CUDA backend offers: launchers that take device pointers, sizes and a stream, and return without waiting.
//
// Same key, nonce and index give the same bits as the CPU core in the exact grade. Arrays are row-major and contiguous.
// Arguments are taken as checked (bindings check them); an error of the launch itself is the return value.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "hushvec/array.hpp"
#include "hushvec/clip.hpp"
#include "hushvec/keystream.hpp"
#include "hushvec/noise.hpp"
#include "hushvec_cuda/source.hpp"

namespace hushvec::cuda {

// Bytes of device memory a call needs besides its arrays, aligned to 256: Report first, then room that no one else may use.
// The launchers set it up themselves.
std::size_t workspace_bytes(std::size_t rows, std::size_t columns, DType dtype);

// out = scale * Z, `count` samples: float32, float64, float16 or bfloat16. Law::gaussian or Law::laplacian.
cudaError_t fill_noise(const NoiseSource& source, Law law, double scale, void* out, DType dtype, std::size_t count, cudaStream_t stream);

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

// grid.grid = 0 is the float grade. Law::gaussian or Law::laplacian. Bad rows as in clip.
cudaError_t clip_and_noise(const NoiseSource& source, const RowsArgument& rows, double clip_norm, double sigma, Law law, ExactGrid grid,
                           void* workspace, cudaStream_t stream);

// The exact grade leaves some 4 samples in 10^13 to the multiprecision level, listed in the workspace. A call whose source is in
// memory settles them itself; after any other, settle must follow once Report::open_samples is seen to be above 0.
cudaError_t settle(const NoiseSource& source, void* out, DType dtype, Law law, ExactGrid grid, void* workspace, cudaStream_t stream);

// out[columns] = the sum of the clipped rows, plus Gaussian noise, exactly rounded to the grid (docs/format.md section 7).
// x is float32, float16 or bfloat16, out float32.
cudaError_t clip_sum_and_noise(const NoiseSource& source, const RowsArgument& rows, double clip_norm, ExactGrid grid, void* workspace,
                               cudaStream_t stream);
std::size_t sum_workspace_bytes(std::size_t rows, std::size_t columns);

}  // namespace hushvec::cuda
