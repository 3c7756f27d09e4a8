// Randomized response (docs/format.md section 9) and codes of public rows, with the answers of the CPU core. Launchers as in launch.hpp.
#pragma once

#include "hushvec/discrete.hpp"
#include "hushvec_cuda/launch.hpp"

namespace hushvec::cuda {

// Integers of 1, 2, 4 or 8 bytes, with or without a sign: codes in [0, labels) look the same.
struct CodesArgument {
    const void* codes;
    void* out;   // may be codes
    std::size_t item_bytes;
    std::size_t count;
};

// out = codes, and Report::first_bad_row is the place of the first that is not in [0, labels). Labels must fit the type. The report has
// report_bytes() of row_passes.hpp.
cudaError_t copy_codes(const CodesArgument& argument, std::uint64_t labels, void* report, cudaStream_t stream);

// out = the answers. The codes are those that copy_codes wrote and found in range: they are not looked at again.
cudaError_t randomized_response(const KeyStream& source, const ResponseLaw& law, const CodesArgument& argument, cudaStream_t stream);

// nearest[row] = the number of the code with the largest inner product, of equal ones the first. `codes` are count rows of rows.columns
// elements, 1 <= count <= 2^24. rows.out is not used. Rows are finite and not float64.
cudaError_t nearest_codes(const RowsArgument& rows, const float* codes, std::size_t count, std::int32_t* nearest, cudaStream_t stream);

}  // namespace hushvec::cuda
