#include "device/nearest_body.hpp"
#include "hushvec_cuda/discrete.hpp"
#include "kernels.cuh"

namespace hushvec::cuda {
namespace {

template <class Stored>
__global__ void __launch_bounds__(kNearestThreads, 3) nearest_kernel(const __grid_constant__ NearestBody<Stored> body) {
    __shared__ NearestMemory memory;
    body.run(blockIdx.x, memory, DeviceTeam{});
}

}  // namespace

cudaError_t nearest_codes(const RowsArgument& rows, const float* codes, std::size_t count, std::int32_t* nearest, cudaStream_t stream) {
    if (rows.rows == 0) return cudaSuccess;
    return with_stored_type(rows.dtype, [&]<class Stored>(Stored) {
        if constexpr (sizeof(Stored) > sizeof(float)) {
            return cudaErrorInvalidValue;   // the caller narrows float64 rows
        } else {
            const NearestBody<Stored> body = {static_cast<const Stored*>(rows.x), codes, rows.rows, count, rows.columns, nearest};
            return launch<nearest_kernel<Stored>>(dim3(static_cast<unsigned>(divide_up(rows.rows, kNearestRows))), kNearestThreads, 0, stream, body);
        }
    });
}

}  // namespace hushvec::cuda
