// Host code alone: rows that a device left open, by the CPU core's ladder.
#include <algorithm>
#include <vector>

#include "array/staging.hpp"
#include "hushvec_cuda/privunit.hpp"
#include "privunit/settle_row.hpp"
#include "privunit_workspace.hpp"

namespace hushvec::cuda {

cudaError_t settle_privunit(const KeyStream& stream, const RowsArgument& rows, PrivUnitLaw law, ExactGrid grid, const Report& report, void* memory,
                            cudaStream_t cuda_stream) {
    const OpenRows listed = with_stored_type(rows.dtype, [&](auto stored) {
        return PrivUnitWorkspace::of(memory, {rows.rows, static_cast<std::uint32_t>(rows.columns)}, stored).open_rows;
    });
    const std::size_t count = std::min(report.open_samples, listed.capacity), row_bytes = rows.columns * item_size(rows.dtype);
    std::vector<std::uint64_t> numbers(count);
    std::vector<float> directions(count * rows.columns), y(rows.columns);
    std::vector<std::byte> stored(row_bytes);
    const MatrixView stored_row = {stored.data(), rows.dtype, 1, rows.columns, static_cast<std::ptrdiff_t>(row_bytes),
                                   static_cast<std::ptrdiff_t>(item_size(rows.dtype))};
    const auto copy = [&](void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
        const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, cuda_stream);
        return error != cudaSuccess ? error : cudaStreamSynchronize(cuda_stream);
    };
    // Copies what the device listed and leaves zeros there.
    const auto take = [&](auto& to, void* from) {
        const std::size_t bytes = to.size() * sizeof to[0];
        const cudaError_t error = copy(to.data(), from, bytes, cudaMemcpyDeviceToHost);
        return error != cudaSuccess ? error : cudaMemsetAsync(from, 0, bytes, cuda_stream);
    };
    cudaError_t error = take(numbers, listed.rows);
    if (error == cudaSuccess) error = take(directions, listed.directions);
    for (std::size_t i = 0; i < count && error == cudaSuccess; ++i) {
        settle_row(stream, law, grid, numbers[i], {directions.data() + i * rows.columns, rows.columns}, y.data());
        scatter(y.data(), stored_row, 0, rows.columns, Rounding::nearest);
        error = copy(static_cast<std::byte*>(rows.out) + numbers[i] * row_bytes, stored.data(), row_bytes, cudaMemcpyHostToDevice);
    }
    return error;
}

}  // namespace hushvec::cuda
