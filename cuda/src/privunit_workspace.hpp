// How a call of PrivUnitG cuts up the device memory that it is given.
#pragma once

#include <algorithm>

#include "device/privunit_body.hpp"
#include "workspace.hpp"

namespace hushvec::cuda {

// A block's row lies in shared memory up to this size, which every device grants unasked beside the rest of PrivUnitRowState.
inline constexpr std::size_t kMostSharedBytes = 44 * 1024;
static_assert(kMostSharedBytes + sizeof(PrivUnitRowState) <= 48 * 1024);

// Longer rows lie in the workspace, a piece for each block.
inline constexpr std::size_t kMostScratchBytes = std::size_t{1} << 26;
inline constexpr std::size_t kMostLongRowBlocks = 512;

struct PrivUnitWorkspace {
    Report* report;
    DrawnComponent* components;
    OpenRows open_rows;
    std::byte* scratch;          // of long rows, a piece a block
    std::size_t scratch_bytes;   // of a piece; 0 where rows fit shared memory
    std::size_t blocks;          // pieces
    std::size_t bytes;

    template <class Stored>
    static PrivUnitWorkspace of(void* memory, const PrivUnitShape& shape, Stored) {
        std::size_t used = 0;
        const auto take = [&](std::size_t size) {
            std::byte* const piece = static_cast<std::byte*>(memory) + used;
            used += aligned_bytes(size);
            return piece;
        };
        const std::size_t capacity = open_row_capacity(shape.rows, shape.groups());
        PrivUnitWorkspace result = {};
        result.report = reinterpret_cast<Report*>(take(sizeof(Report)));
        result.components = reinterpret_cast<DrawnComponent*>(take(shape.rows * sizeof(DrawnComponent)));
        result.open_rows = {result.report, reinterpret_cast<std::uint64_t*>(take(capacity * sizeof(std::uint64_t))),
                            reinterpret_cast<float*>(take(capacity * shape.columns * sizeof(float))), static_cast<std::uint32_t>(capacity)};
        const std::size_t of_row = PrivUnitMemory<Stored>::bytes(shape);
        if (of_row > kMostSharedBytes) {
            result.scratch_bytes = aligned_bytes(of_row);
            result.blocks = std::clamp<std::size_t>(kMostScratchBytes / result.scratch_bytes, 1, std::min(kMostLongRowBlocks, shape.rows));
            result.scratch = take(result.blocks * result.scratch_bytes);
        }
        result.bytes = used;
        return result;
    }
};

}  // namespace hushvec::cuda
