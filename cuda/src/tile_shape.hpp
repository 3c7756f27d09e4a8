// How many rows one block takes at once.
#pragma once

#include <numeric>
#include <optional>

#include "device/rows_body.hpp"

namespace hushvec::cuda {

// Three groups a half warp: blocks are short enough to overlap one's loading with another's noise, and d = 384, 768, 1024 and
// 1536 divide the work evenly.
inline constexpr std::size_t kTileGroups = 3 * kTileHalfWarps;
inline constexpr std::size_t kMostTileBytes = 96 * 1024;     // two blocks a multiprocessor on every architecture we build for
inline constexpr std::size_t kFewestTileColumns = 64;        // shorter rows would spend their time on norms, a warp a row

// None where rows_body.hpp does not pay: very short rows, or ones whose smallest run of whole rows and whole groups is too long.
template <class Stored>
std::optional<TileShape> tile_shape(std::size_t rows, std::size_t columns) {
    if (columns < kFewestTileColumns) return std::nullopt;
    const std::size_t rows_per_unit = kGroupSamples / std::gcd(columns, kGroupSamples);
    const std::size_t groups_per_unit = rows_per_unit * columns / kGroupSamples;
    if (groups_per_unit * kGroupSamples * sizeof(Stored) > kMostTileBytes) return std::nullopt;

    // As many units as make the busiest half warp's share of the tile closest to the mean.
    std::size_t units = 1;
    double best = 0;
    for (std::size_t n = 1; n == 1 || n * groups_per_unit <= kTileGroups; ++n) {
        const std::size_t groups = n * groups_per_unit;
        const std::size_t turns = (groups + kTileHalfWarps - 1) / kTileHalfWarps;
        const double balance = static_cast<double>(groups) / static_cast<double>(turns * kTileHalfWarps);
        if (balance >= best) {
            best = balance;
            units = n;
        }
    }
    const auto tile_rows = static_cast<std::uint32_t>(units * rows_per_unit);
    const TileShape shape = {rows, static_cast<std::uint32_t>(columns), tile_rows, SmallDivisor(static_cast<std::uint32_t>(columns))};
    if (TileMemory<Stored>::bytes(shape) > kMostTileBytes) return std::nullopt;
    return shape;
}

}  // namespace hushvec::cuda
