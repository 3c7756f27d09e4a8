// Randomized response (docs/format.md section 9), with the bits of the CPU core. Launchers as in launch.hpp.
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

}  // namespace hushvec::cuda
