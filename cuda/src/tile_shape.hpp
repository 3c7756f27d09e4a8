// How many rows one block takes at once.
#pragma once

#include <optional>

#include "device/rows_body.hpp"

namespace hushvec::cuda {

// Three groups a half warp: blocks are short enough to overlap one's loading with another's noise, and d = 384, 768, 1024 and
// 1536 divide the work evenly.
inline constexpr std::size_t kTileGroups = 3 * kTileHalfWarps;
inline constexpr std::size_t kFewestTileColumns = 64;        // shorter rows would spend their time on norms, a warp a row
inline constexpr std::size_t kMostTileRows = 128;            // sqrt(2) times kTileGroups groups of the shortest rows

// The shape for rows of shared memory of `most_bytes`, none where no row fits, or rows are very short.
template <class Stored>
std::optional<TileShape> tile_shape(std::size_t rows, std::size_t columns, std::size_t most_bytes) {
    if (columns < kFewestTileColumns || columns * sizeof(Stored) > most_bytes) return std::nullopt;
    std::optional<TileShape> best;
    double best_share = 0;
    for (std::uint32_t n = 1; n <= kMostTileRows; ++n) {
        // 16 bytes at a time need tiles that begin at a multiple of them.
        if (n * columns * sizeof(Stored) % 16 != 0 && n > 1) continue;
        const TileShape shape = {rows, static_cast<std::uint32_t>(columns), n, SmallDivisor(static_cast<std::uint32_t>(columns))};
        if (TileMemory<Stored>::bytes(shape) > most_bytes || (n > 1 && shape.groups() > kTileGroups)) break;
        // The tile's own samples of what its half warps make in as many turns.
        const std::size_t turns = (shape.groups() + kTileHalfWarps - 1) / kTileHalfWarps;
        const double share = static_cast<double>(shape.samples()) / static_cast<double>(turns * kTileHalfWarps * kGroupSamples);
        if (share >= best_share) {
            best_share = share;
            best = shape;
        }
    }
    return best;
}

}  // namespace hushvec::cuda
