// Randomized response (docs/format.md section 9) and codes of public rows, with the answers of the CPU core. Launchers as in launch.hpp.
#pragma once

#include "hushvec/discrete.hpp"
#include "hushvec/discrete_noise.hpp"
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

// Integers of 4 or 8 bytes.
struct IntegersArgument {
    void* out;
    std::size_t item_bytes;
    std::size_t count;
};

// Bytes of device memory for a call, aligned to 256.
std::size_t discrete_workspace_bytes(std::size_t count);

// out = samples of discrete noise (docs/format.md section 15) with the bits of the CPU core, but for those that Report::open_samples counts, at
// most 59 in 1,000: settle_discrete must follow if there are any. After check_discrete.
cudaError_t discrete_noise(const KeyStream& source, DiscreteLaw law, double scale, const IntegersArgument& argument, void* workspace, cudaStream_t stream);

// Makes those on the host, on all threads, and writes them to argument.out. Waits for the device.
cudaError_t settle_discrete(const KeyStream& source, DiscreteLaw law, double scale, const IntegersArgument& argument, const Report& report,
                            void* workspace, cudaStream_t stream);

// nearest[row] = the number of the code with the largest inner product, of equal ones the first. `codes` are count rows of rows.columns
// elements, 1 <= count <= 2^24. rows.out is not used. Rows are finite and not float64.
cudaError_t nearest_codes(const RowsArgument& rows, const float* codes, std::size_t count, std::int32_t* nearest, cudaStream_t stream);

}  // namespace hushvec::cuda
