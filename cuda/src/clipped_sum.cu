#include "hushvec/clipped_sum.hpp"

#include <algorithm>
#include <vector>

#include "kernels.cuh"
#include "release_memory.hpp"

namespace hushvec::cuda {
namespace {

std::size_t stretches_of(std::size_t columns) { return divide_up(columns, kNormStretch); }

// What sum_scales needs: its report, then the rows' scales, their squared norms, the sums of squares by stretch of one part at a time, and a
// table of the parts.
struct ScalesMemory {
    CallHeader* header;
    float* scales;
    double* squares;   // the scales in float64, where a part is
    double* partial;
    RowsPart* table;
    std::size_t bytes = 0;

    ScalesMemory(void* memory, std::span<const PartArgument> parts) {
        const std::size_t rows = parts.front().rows;
        std::size_t most_columns = 0;
        for (const PartArgument& part : parts) most_columns = std::max(most_columns, part.columns);
        const auto take = [&](std::size_t size) {
            void* const piece = static_cast<std::byte*>(memory) + bytes;
            bytes += aligned_bytes(size);
            return piece;
        };
        header = static_cast<CallHeader*>(take(sizeof(CallHeader)));
        scales = static_cast<float*>(take(rows * sizeof(float)));
        squares = static_cast<double*>(take(rows * sizeof(double)));
        partial = static_cast<double*>(take(rows * stretches_of(most_columns) * sizeof(double)));
        table = static_cast<RowsPart*>(take(parts.size() * sizeof(RowsPart)));
    }

    template <class Value>
    const Value* scales_of() const {
        if constexpr (sizeof(Value) == sizeof(double)) return squares;
        else return scales;
    }
};

// A release of either version: parts begin with the blocks of version 3, and there is room for what its level 0 leaves open.
struct SumMemory : ReleaseMemory {
    explicit SumMemory(std::span<const SumArgument> parts) : ReleaseMemory(parts, kHalfWordGroups) {}
    PairCapacity capacity() const { return {open_row_pair_capacity(samples())}; }
};

dim3 blocks(std::size_t count) { return dim3(static_cast<unsigned>(count)); }

// Calls with the part's elements.
template <class Call>
cudaError_t with_elements(const PartArgument& part, const Call& call) {
    return with_stored_type(part.dtype, [&]<class Stored>(Stored) { return call(static_cast<const Stored*>(part.x)); });
}

cudaError_t wide_scales(std::span<const PartArgument> parts, double clip_norm, const ScalesMemory& memory, cudaStream_t stream) {
    std::vector<RowsPart> table;
    for (const PartArgument& part : parts) table.push_back({part.x, part.dtype, part.columns});
    const cudaError_t error = cudaMemcpyAsync(memory.table, table.data(), table.size() * sizeof(RowsPart), cudaMemcpyHostToDevice, stream);
    if (error != cudaSuccess) return error;
    const std::size_t rows = parts.front().rows;
    const WideScalesBody body = {memory.table, static_cast<std::uint32_t>(parts.size()), rows, clip_norm, sum_unit(clip_norm), memory.partial,
                                 memory.squares, memory.scales, &memory.header->report};
    return launch<warps_kernel<WideScalesBody>>(blocks(divide_up(rows, kStreamThreads)), kStreamThreads, 0, stream, body);
}

}  // namespace

std::size_t sum_scales_workspace_bytes(std::span<const PartArgument> parts) { return ScalesMemory(nullptr, parts).bytes; }
std::size_t release_sums_workspace_bytes(std::span<const SumArgument> parts) {
    const SumMemory release(parts);
    return release.bytes(release.capacity());
}

cudaError_t sum_scales(std::span<const PartArgument> parts, double clip_norm, void* workspace, cudaStream_t stream) {
    const std::size_t rows = parts.front().rows;
    const ScalesMemory memory(workspace, parts);
    const bool wide = std::any_of(parts.begin(), parts.end(), [](const PartArgument& part) { return part.dtype == DType::float64; });
    cudaError_t error = reset(memory.header, stream);
    if (rows == 0) return error;
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
        const JoinNormsBody join = {memory.partial, rows, stretches, i == 0, i + 1 == parts.size() && !wide, clip_norm, sum_unit(clip_norm),
                                    memory.squares, memory.scales, &memory.header->report};
        error = launch<warps_kernel<JoinNormsBody>>(blocks(divide_up(rows, kStreamWarps)), kStreamThreads, 0, stream, join);
    }
    return error == cudaSuccess && wide ? wide_scales(parts, clip_norm, memory, stream) : error;
}

cudaError_t add_to_sum(const PartArgument& part, const void* workspace, double* sums, cudaStream_t stream) {
    if (part.rows * part.columns == 0) return cudaSuccess;
    const ScalesMemory memory(const_cast<void*>(workspace), std::span(&part, 1));
    return with_elements(part, [&]<class Stored>(const Stored* x) {
        using Body = ColumnSumsBody<Stored>;
        const Body body = {x, part.rows, part.columns, memory.template scales_of<Wide<Stored>>(), sums};
        return launch<warps_kernel<Body>>(blocks(body.blocks()), body.threads(), 0, stream, body);
    });
}

cudaError_t release_sums(const KeyStream& source, std::span<const SumArgument> parts, double clip_norm, ExactGrid grid, void* memory,
                         cudaStream_t stream) {
    const SumMemory release(parts);
    const Workspace workspace(memory, release.capacity());
    cudaError_t error = release.begin(workspace, stream);
    if (error != cudaSuccess || release.groups == 0) return error;
    const SumParts on_device = release.parts(source, grid, workspace);
    const float s = grid.sigma / grid.grid;
    const double in_grids = sum_unit(clip_norm) / double{grid.grid};
    constexpr std::size_t at_once = kStreamThreads / kGroupBlocks;
    if (source.half_words) {
        const std::size_t items = release.groups / kHalfWordGroups;
        const HalfSumNoiseBody noise = {on_device, items, HalfGaussian<double>(s, grid.grid), workspace.open_pairs(), in_grids};
        error = launch<warps_kernel<HalfSumNoiseBody>>(blocks(divide_up(items, at_once)), kStreamThreads, 0, stream, noise);
        return error != cudaSuccess ? error : run_refinement(on_device, grid, workspace, stream);
    }
    const SumNoiseBody noise = {on_device, release.groups, {GaussianLevelOne(s), grid.grid, workspace.open_pairs()}, in_grids};
    error = launch<warps_kernel<SumNoiseBody>>(blocks(divide_up(release.groups, at_once)), kStreamThreads, 0, stream, noise);
    return error != cudaSuccess ? error : run_ladder(on_device, grid, workspace, stream);
}

cudaError_t settle_sums(const KeyStream& source, std::span<const SumArgument> parts, ExactGrid grid, void* memory, cudaStream_t stream) {
    const SumMemory release(parts);
    const Workspace workspace(memory, release.capacity());
    const SumParts all = release.parts(source, grid, workspace);
    cudaError_t error = cudaSuccess;
    for (std::uint32_t i = 0; i < all.count && error == cudaSuccess; ++i) {
        const SumPart& part = release.table[i];
        const OneOutput output = {all.source(i), {part.out, DType::float32, part.columns, grid.grid}};
        error = settle_part(output, part.first_group * kGroupPairs, i + 1 == all.count, grid, workspace, stream);
    }
    return error;
}

}  // namespace hushvec::cuda
