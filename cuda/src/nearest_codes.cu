#include "device/nearest_body.hpp"
#include "hushvec_cuda/discrete.hpp"
#include "kernels.cuh"

namespace hushvec::cuda {
namespace {

constexpr unsigned kBlocksAtOnce = 4;   // of a multiprocessor

template <class Stored>
__global__ void __launch_bounds__(kNearestThreads, kBlocksAtOnce) nearest_kernel(const __grid_constant__ NearestBody<Stored> body) {
    __shared__ NearestMemory memory;
    body.run(blockIdx.x, memory, DeviceTeam{});
}

// As many row groups as leave a block to every place of the device: each group more reads the codes fewer times, but makes fewer blocks.
unsigned row_groups(std::size_t rows) {
    unsigned groups = kMostRowGroups;
    while (groups > 1 && striding_blocks(rows, kBlocksAtOnce) > divide_up(rows, groups * kNearestRows)) groups /= 2;
    return groups;
}

}  // namespace

cudaError_t nearest_codes(const RowsArgument& rows, const float* codes, std::size_t count, std::int32_t* nearest, cudaStream_t stream) {
    if (rows.rows == 0) return cudaSuccess;
    return with_stored_type(rows.dtype, [&]<class Stored>(Stored) {
        if constexpr (sizeof(Stored) > sizeof(float)) {
            return cudaErrorInvalidValue;   // the caller narrows float64 rows
        } else {
            const NearestBody<Stored> body = {static_cast<const Stored*>(rows.x), codes, rows.rows, count, rows.columns, nearest, row_groups(rows.rows)};
            return launch<nearest_kernel<Stored>>(dim3(static_cast<unsigned>(divide_up(rows.rows, body.rows_of_block()))), kNearestThreads, 0, stream, body);
        }
    });
}

}  // namespace hushvec::cuda
