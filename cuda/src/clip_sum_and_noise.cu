#include "clip_and_noise.cuh"
#include "device/error_bounds.hpp"
#include "hushvec/clipped_sum.hpp"

namespace hushvec::cuda {
namespace {

// The parts of a call's workspace behind the fixed ones.
struct SumMemory {
    double* sums;
    double* partial;
    float* scales;

    static std::size_t stretches(std::size_t columns) { return divide_up(columns, kNormStretch); }
    static std::size_t bytes(std::size_t rows, std::size_t columns) {
        return aligned_bytes(columns * sizeof(double)) + aligned_bytes(rows * stretches(columns) * sizeof(double)) +
               aligned_bytes(rows * sizeof(float));
    }
    SumMemory(std::byte* memory, std::size_t rows, std::size_t columns)
        : sums(reinterpret_cast<double*>(memory)), partial(reinterpret_cast<double*>(memory + aligned_bytes(columns * sizeof(double)))),
          scales(reinterpret_cast<float*>(reinterpret_cast<std::byte*>(partial) + aligned_bytes(rows * stretches(columns) * sizeof(double)))) {}
};

template <class Body>
__global__ void __launch_bounds__(kStreamThreads) columns_kernel(const __grid_constant__ Body body) {
    body.run(blockIdx.x, blockIdx.y, DeviceTeam{});
}

__global__ void __launch_bounds__(kStreamThreads, 2) sum_noise_kernel(const __grid_constant__ SumNoiseBody body) {
    body.run(blockIdx.x, DeviceTeam{});
}

template <class Stored>
cudaError_t sum_rows(const RowsArgument& rows, double clip_norm, double unit, const SumMemory& memory, Report* report, cudaStream_t stream) {
    const auto* x = static_cast<const Stored*>(rows.x);
    const std::size_t stretches = SumMemory::stretches(rows.columns);
    const auto blocks = [](std::size_t n) { return dim3(static_cast<unsigned>(n)); };

    using Stretches = StretchNormsBody<Stored>;
    cudaError_t error = launch<warps_kernel<Stretches>>(blocks(divide_up(rows.rows * stretches, kStreamWarps)), kStreamThreads, 0, stream,
                                                        Stretches{x, rows.rows, rows.columns, memory.partial});
    if (error != cudaSuccess) return error;
    error = launch<warps_kernel<JoinNormsBody>>(blocks(divide_up(rows.rows, kStreamWarps)), kStreamThreads, 0, stream,
                                                JoinNormsBody{memory.partial, rows.rows, stretches, clip_norm, unit, memory.scales, report});
    if (error != cudaSuccess) return error;
    using Columns = ColumnSumsBody<Stored>;
    const dim3 grid(static_cast<unsigned>(divide_up(rows.columns, kStreamThreads)), static_cast<unsigned>(divide_up(rows.rows, kSumRows)));
    return launch<columns_kernel<Columns>>(grid, kStreamThreads, 0, stream, Columns{x, rows.rows, rows.columns, memory.scales, memory.sums});
}

}  // namespace

std::size_t sum_workspace_bytes(std::size_t rows, std::size_t columns) { return Workspace::kFixedBytes + SumMemory::bytes(rows, columns); }

cudaError_t clip_sum_and_noise(const NoiseSource& source, const RowsArgument& rows, double clip_norm, ExactGrid grid, void* memory,
                               cudaStream_t stream) {
    const Workspace workspace(memory);
    CallStream taken;
    cudaError_t error = workspace.reset(stream);
    if (error == cudaSuccess) error = take(source, workspace.nonce, stream, taken);
    if (error != cudaSuccess || rows.columns == 0) return error;

    const SumMemory parts(workspace.rest, rows.rows, rows.columns);
    error = cudaMemsetAsync(parts.sums, 0, rows.columns * sizeof(double), stream);
    if (error == cudaSuccess && rows.rows > 0) {
        error = with_stored_type(rows.dtype, [&]<class Stored>(Stored) {
            if constexpr (sizeof(Stored) > sizeof(float)) return cudaErrorInvalidValue;
            else return sum_rows<Stored>(rows, clip_norm, sum_unit(clip_norm), parts, workspace.report, stream);
        });
    }
    if (error != cudaSuccess) return error;
    const float s = grid.sigma / grid.grid;
    // clang-format off
    const SumNoiseBody noise = {taken, {ExactScale<Thread>(s, kGaussianBound), grid.grid, workspace.open_samples()}, parts.sums,
                                sum_unit(clip_norm) / double{grid.grid}, rows.columns, static_cast<float*>(rows.out)};
    // clang-format on
    const std::size_t groups = divide_up(rows.columns, kGroupSamples);
    error = launch<sum_noise_kernel>(dim3(static_cast<unsigned>(divide_up(groups, kStreamThreads / kGroupBlocks))), kStreamThreads, 0, stream, noise);
    if (error != cudaSuccess || source.state == nullptr) return error;
    return settle_taken(taken, {rows.out, DType::float32, rows.columns}, Law::gaussian, grid, workspace, stream);
}

}  // namespace hushvec::cuda
