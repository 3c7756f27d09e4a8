// How the release of a sum cuts up its memory: as any exact call on so many groups, and a table of the parts.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <vector>

#include "device/sum_body.hpp"
#include "workspace.hpp"

namespace hushvec::cuda {

struct ReleaseMemory {
    std::size_t groups = 0;
    std::vector<SumPart> table;

    // Each part begins with a multiple of so many groups.
    explicit ReleaseMemory(std::span<const SumArgument> parts, std::size_t multiple = 1) {
        for (const SumArgument& part : parts) {
            table.push_back({part.sums, part.out, part.columns, groups});
            groups += (part.columns + multiple * kGroupSamples - 1) / (multiple * kGroupSamples) * multiple;
        }
    }
    std::size_t samples() const { return groups * kGroupSamples; }
    std::size_t bytes(PairCapacity capacity) const {
        return Workspace::fixed_bytes(capacity) + aligned_bytes(table.size() * sizeof(SumPart));
    }
    SumParts parts(const KeyStream& source, ExactGrid grid, const Workspace& workspace) const {
        return {source, reinterpret_cast<const SumPart*>(workspace.rest), static_cast<std::uint32_t>(table.size()), grid.grid};
    }

    // An empty report, and the table on the device unless no part has columns.
    cudaError_t begin(const Workspace& workspace, cudaStream_t stream) const {
        const cudaError_t error = reset(workspace.header, stream);
        if (error != cudaSuccess || groups == 0) return error;
        return cudaMemcpyAsync(workspace.rest, table.data(), table.size() * sizeof(SumPart), cudaMemcpyHostToDevice, stream);
    }
};

}  // namespace hushvec::cuda
