#include "hushvec/clipped_sum.hpp"

#include "kernels.cuh"
#include "workspace.hpp"

namespace hushvec::cuda {
namespace {

std::size_t stretches_of(std::size_t columns) { return divide_up(columns, kNormStretch); }

// What sum_scales needs: its report, then the rows' scales, their squared norms, and the sums of squares by stretch of one part at a time.
struct ScalesMemory {
    CallHeader* header;
    float* scales;
    double* squares;
    double* partial;

    static std::size_t bytes(std::size_t rows, std::size_t most_columns) {
        return Workspace::kHeaderBytes + aligned_bytes(rows * sizeof(float)) + aligned_bytes(rows * sizeof(double)) +
               aligned_bytes(rows * stretches_of(most_columns) * sizeof(double));
    }
    ScalesMemory(void* memory, std::size_t rows) : header(static_cast<CallHeader*>(memory)) {
        std::byte* rest = static_cast<std::byte*>(memory) + Workspace::kHeaderBytes;
        scales = reinterpret_cast<float*>(rest);
        squares = reinterpret_cast<double*>(rest += aligned_bytes(rows * sizeof(float)));
        partial = reinterpret_cast<double*>(rest += aligned_bytes(rows * sizeof(double)));
    }
};

template <class Body>
__global__ void __launch_bounds__(kStreamThreads) columns_kernel(const __grid_constant__ Body body) {
    body.run(blockIdx.x, blockIdx.y, DeviceTeam{});
}

__global__ void __launch_bounds__(kStreamThreads, 2) sum_noise_kernel(const __grid_constant__ SumNoiseBody body) {
    body.run(blockIdx.x, DeviceTeam{});
}

dim3 blocks(std::size_t count) { return dim3(static_cast<unsigned>(count)); }

// Calls with the part's elements; float64 rows have their scales in float64, which only the CPU makes.
template <class Call>
cudaError_t with_elements(const PartArgument& part, const Call& call) {
    return with_stored_type(part.dtype, [&]<class Stored>(Stored) {
        if constexpr (sizeof(Stored) > sizeof(float)) return cudaErrorInvalidValue;
        else return call(static_cast<const Stored*>(part.x));
    });
}

}  // namespace

std::size_t sum_scales_workspace_bytes(std::size_t rows, std::size_t most_columns) { return ScalesMemory::bytes(rows, most_columns); }
std::size_t release_sum_workspace_bytes(std::size_t columns) { return Workspace::fixed_bytes(columns); }

cudaError_t sum_scales(std::span<const PartArgument> parts, double clip_norm, void* workspace, cudaStream_t stream) {
    const std::size_t rows = parts.front().rows;
    const ScalesMemory memory(workspace, rows);
    cudaError_t error = reset(memory.header, stream);
    for (std::size_t i = 0; i < parts.size() && error == cudaSuccess; ++i) {
        const PartArgument& part = parts[i];
        const std::size_t stretches = stretches_of(part.columns);
        if (stretches > 0) {
            error = with_elements(part, [&]<class Stored>(const Stored* x) {
                using Body = StretchNormsBody<Stored>;
                return launch<warps_kernel<Body>>(blocks(divide_up(rows * stretches, kStreamWarps)), kStreamThreads, 0, stream,
                                                  Body{x, rows, part.columns, memory.partial});
            });
        }
        if (error != cudaSuccess) return error;
        const JoinNormsBody join = {memory.partial, rows, stretches, i == 0, i + 1 == parts.size(), clip_norm, sum_unit(clip_norm),
                                    memory.squares, memory.scales, &memory.header->report};
        error = launch<warps_kernel<JoinNormsBody>>(blocks(divide_up(rows, kStreamWarps)), kStreamThreads, 0, stream, join);
    }
    return error;
}

cudaError_t add_to_sum(const PartArgument& part, const void* workspace, double* sums, cudaStream_t stream) {
    if (part.columns == 0) return cudaSuccess;
    const ScalesMemory memory(const_cast<void*>(workspace), part.rows);
    return with_elements(part, [&]<class Stored>(const Stored* x) {
        using Body = ColumnSumsBody<Stored>;
        const dim3 grid(static_cast<unsigned>(divide_up(part.columns, kStreamThreads)), static_cast<unsigned>(divide_up(part.rows, kSumRows)));
        return launch<columns_kernel<Body>>(grid, kStreamThreads, 0, stream, Body{x, part.rows, part.columns, memory.scales, sums});
    });
}

cudaError_t release_sum(const KeyStream& source, const double* sums, const OutArgument& out, double clip_norm, ExactGrid grid, void* memory,
                        cudaStream_t stream) {
    const Workspace workspace(memory, out.count);
    cudaError_t error = reset(workspace.header, stream);
    if (error != cudaSuccess || out.count == 0) return error;
    const CallStream from = {source};
    const SumNoiseBody noise = {from,
                                {GaussianLevelOne(grid.sigma / grid.grid), grid.grid, workspace.open_pairs()},
                                sums,
                                sum_unit(clip_norm) / double{grid.grid},
                                out.count,
                                static_cast<float*>(out.data)};
    const std::size_t groups = divide_up(out.count, kGroupSamples);
    error = launch<sum_noise_kernel>(blocks(divide_up(groups, kStreamThreads / kGroupBlocks)), kStreamThreads, 0, stream, noise);
    return error != cudaSuccess ? error : run_ladder(from, out, Law::gaussian, grid, workspace, stream);
}

}  // namespace hushvec::cuda
