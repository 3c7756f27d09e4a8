// How many rows one block takes at once.
#pragma once

#include <optional>

#include "device/rows_body.hpp"

namespace hushvec::cuda {

// Three groups a half warp of kTileThreads: blocks are short enough to overlap one's loading with another's noise, and d = 384,
// 768, 1024 and 1536 divide the work evenly.
inline constexpr std::size_t kTileSamples = 3 * (kTileThreads / kLanes) * kGroup;
inline constexpr std::size_t kFewestTileColumns = 64;        // shorter rows would spend their time on norms, a warp a row
inline constexpr std::size_t kMostTileRows = 128;            // sqrt(2) times kTileSamples of the shortest rows

// The shape for rows of shared memory of `most_bytes`, none where no row fits, or rows are very short. Tiles: how the work cuts them.
template <class Stored, class Tiles = TilesOfGroups>
std::optional<TileShape<Tiles::kSpan>> tile_shape(std::size_t rows, std::size_t columns, std::size_t most_bytes) {
    constexpr std::size_t kHalfWarps = Tiles::kThreads / kLanes, kSpan = Tiles::kSpan;
    if (columns < kFewestTileColumns || columns * sizeof(Stored) > most_bytes) return std::nullopt;
    std::optional<TileShape<kSpan>> best;
    double best_share = 0;
    for (std::uint32_t n = 1; n <= kMostTileRows; ++n) {
        // 16 bytes at a time need tiles that begin at a multiple of them.
        if (n * columns * sizeof(Stored) % 16 != 0 && n > 1) continue;
        const TileShape<kSpan> shape = {rows, static_cast<std::uint32_t>(columns), n, SmallDivisor(static_cast<std::uint32_t>(columns))};
        // More rows may make whole spans again, and so fewer.
        if (TileMemory<Stored>::template bytes<Tiles>(shape) > most_bytes || (n > 1 && shape.samples_of_spans() > kTileSamples)) continue;
        // The tile's own samples of what its half warps make in as many turns.
        const std::size_t turns = (shape.spans() + kHalfWarps - 1) / kHalfWarps;
        const double share = static_cast<double>(shape.samples()) / static_cast<double>(turns * kHalfWarps * kSpan);
        if (share >= best_share) {
            best_share = share;
            best = shape;
        }
    }
    return best;
}

}  // namespace hushvec::cuda
