// PrivUnitG on a device. Launchers as in launch.hpp, and a step on the host: what float64 cannot decide, a row in ten million, needs more
// precision than a device has.
#pragma once

#include "hushvec/privunit.hpp"
#include "hushvec_cuda/launch.hpp"

namespace hushvec::cuda {

inline constexpr std::size_t kMostPrivUnitColumns = std::size_t{1} << 30;

// Bytes of device memory for a call, aligned to 256. At most kMostPrivUnitColumns columns.
std::size_t privunit_workspace_bytes(std::size_t rows, std::size_t columns, DType dtype);

// The bits of hushvec::privunit for a stream of ChaCha, but for the rows that Report::open_samples counts: settle_privunit must follow if there
// are any. grid is privunit_grid's. A row with NaN or Inf counts as one without direction and is reported.
cudaError_t privunit(const KeyStream& stream, const RowsArgument& rows, PrivUnitLaw law, ExactGrid grid, void* workspace, cudaStream_t cuda_stream);

// Makes the listed rows on the host and copies them to rows.out. Waits for the device.
cudaError_t settle_privunit(const KeyStream& stream, const RowsArgument& rows, PrivUnitLaw law, ExactGrid grid, const Report& report, void* workspace,
                            cudaStream_t cuda_stream);

}  // namespace hushvec::cuda
