// What comes before and after the noise: a search for NaN and Inf, and rows of unit length. Launchers as in launch.hpp.
#pragma once

#include "hushvec_cuda/launch.hpp"

namespace hushvec::cuda {

// Bytes of device memory for the Report of these calls, aligned to 256.
std::size_t report_bytes();

// Report::first_bad_row of x. Nothing is written to rows.out, which may be null.
cudaError_t find_bad_row(const RowsArgument& rows, void* report, cudaStream_t stream);

// Each row divided by its norm, with the bits of the CPU core's unit_rows; a row of zeros stays as it is. A row with NaN or Inf becomes
// zeros and is reported; without a report, which may be null, it only becomes zeros.
cudaError_t unit_rows(const RowsArgument& rows, void* report, cudaStream_t stream);

}  // namespace hushvec::cuda
