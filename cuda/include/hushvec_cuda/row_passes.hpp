// What comes before and after the noise: a search for NaN and Inf, rows of unit length, int8 values. Launchers as in launch.hpp.
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

// out[count], saturated at +-127, of whole numbers of a float dtype: the last step of an int8 release (docs/format.md section 14).
cudaError_t int8_values(const OutArgument& numbers, std::int8_t* out, cudaStream_t stream);

}  // namespace hushvec::cuda
