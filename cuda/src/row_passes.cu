#include "hushvec_cuda/row_passes.hpp"

#include "device/bad_row_body.hpp"
#include "device/int8_body.hpp"
#include "device/unit_rows_body.hpp"
#include "kernels.cuh"
#include "workspace.hpp"

namespace hushvec::cuda {
namespace {

template <class Stored>
__global__ void __launch_bounds__(kBadRowThreads) bad_row_kernel(const __grid_constant__ BadRowBody<Stored> body) {
    body.run(blockIdx.x, gridDim.x, DeviceTeam{});
}

template <class Stored>
__global__ void __launch_bounds__(kUnitThreads, 4) unit_rows_kernel(const __grid_constant__ UnitRowsBody<Stored> body) {
    __shared__ UnitRowsMemory memory;
    body.run(blockIdx.x, memory, DeviceTeam{});
}

template <class Stored>
__global__ void __launch_bounds__(kInt8Threads) int8_kernel(const __grid_constant__ Int8Body<Stored> body) {
    body.run(blockIdx.x, gridDim.x, DeviceTeam{});
}

}  // namespace

std::size_t report_bytes() { return aligned_bytes(sizeof(Report)); }

cudaError_t find_bad_row(const RowsArgument& rows, void* memory, cudaStream_t stream) {
    auto* const report = static_cast<Report*>(memory);
    const cudaError_t error = reset_report(report, stream);
    const std::size_t count = rows.rows * rows.columns;
    if (error != cudaSuccess || count == 0) return error;
    return with_stored_type(rows.dtype, [&]<class Stored>(Stored) {
        const BadRowBody<Stored> body = {static_cast<const Stored*>(rows.x), count, rows.columns, report};
        const unsigned blocks = striding_blocks(divide_up(count, Pack<Stored>::kElements * kBadRowThreads));
        return launch<bad_row_kernel<Stored>>(dim3(blocks), kBadRowThreads, 0, stream, body);
    });
}

cudaError_t unit_rows(const RowsArgument& rows, void* memory, cudaStream_t stream) {
    auto* const report = static_cast<Report*>(memory);
    if (report != nullptr) {
        if (const cudaError_t error = reset_report(report, stream); error != cudaSuccess) return error;
    }
    if (rows.rows * rows.columns == 0) return cudaSuccess;
    return with_stored_type(rows.dtype, [&]<class Stored>(Stored) {
        const UnitRowsBody<Stored> body = {static_cast<const Stored*>(rows.x), static_cast<Stored*>(rows.out), rows.rows, rows.columns, report};
        return launch<unit_rows_kernel<Stored>>(dim3(static_cast<unsigned>(divide_up(rows.rows, kUnitRows))), kUnitThreads, 0, stream, body);
    });
}

cudaError_t int8_values(const OutArgument& numbers, std::int8_t* out, cudaStream_t stream) {
    if (numbers.count == 0) return cudaSuccess;
    return with_stored_type(numbers.dtype, [&]<class Stored>(Stored) {
        const Int8Body<Stored> body = {static_cast<const Stored*>(numbers.data), out, numbers.count};
        const unsigned blocks = striding_blocks(divide_up(numbers.count, 4 * kInt8Threads));
        return launch<int8_kernel<Stored>>(dim3(blocks), kInt8Threads, 0, stream, body);
    });
}

}  // namespace hushvec::cuda
