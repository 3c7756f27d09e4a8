// Rows that fit shared memory: each tile of whole rows and whole groups is read once, clipped, worked on and written once.
//
//   load      tile -> shared memory, 16 bytes at a time where the array's alignment allows
//   norms     a warp a row, then a thread a row for the scales; a row with NaN or Inf is reported and becomes zeros
//   work      clip, or noise by half warps: a group each
#pragma once

#include "device/noise.hpp"
#include "device/row_norm.hpp"
#include "device/source.hpp"
#include "device/team.hpp"

namespace hushvec::cuda {

inline constexpr unsigned kTileThreads = 128;
// Blocks that a multiprocessor should hold, which caps their registers at 80: 24 warps. With one more, some kernels spill.
inline constexpr unsigned kTilesAtOnce = 6;
inline constexpr std::uint32_t kGroup = kGroupSamples;   // tiles count in 32 bits
inline constexpr std::uint32_t kLanes = kGroupBlocks;
inline constexpr unsigned kTileHalfWarps = kTileThreads / kLanes;

// n / divisor for n and divisor below 2^17: n * (2^40 / divisor, rounded up) / 2^40 is off by less than 1 / divisor.
struct SmallDivisor {
    std::uint64_t factor;

    explicit SmallDivisor(std::uint32_t divisor) : factor((std::uint64_t{1} << 40) / divisor + 1) {}
    HUSHVEC_INLINE std::uint32_t divide(std::uint32_t n) const { return static_cast<std::uint32_t>((n * factor) >> 40); }
};

struct TileShape {
    std::size_t rows;
    std::uint32_t columns;
    std::uint32_t rows_at_once;    // in one tile: whole groups
    SmallDivisor by_columns;

    std::uint32_t samples() const { return rows_at_once * columns; }
    std::size_t tiles() const { return (rows + rows_at_once - 1) / rows_at_once; }
};

// A tile's share of a block's memory: pointers, the same in every thread.
template <class Stored>
struct TileMemory {
    double* squares;            // rows_at_once sums
    Wide<Stored>* scales;       // rows_at_once
    Stored* elements;

    HUSHVEC_INLINE TileMemory(void* memory, const TileShape& shape)
        : squares(static_cast<double*>(memory)), scales(reinterpret_cast<Wide<Stored>*>(squares + shape.rows_at_once)),
          elements(reinterpret_cast<Stored*>(static_cast<std::byte*>(memory) + row_bytes(shape))) {}

    static std::size_t bytes(const TileShape& shape) {
        const std::uint32_t groups = (shape.samples() + kGroup - 1) / kGroup;
        return row_bytes(shape) + groups * kGroup * sizeof(Stored);
    }

private:
    HUSHVEC_INLINE static std::size_t row_bytes(const TileShape& shape) {
        return (shape.rows_at_once * (sizeof(double) + sizeof(Wide<Stored>)) + 15) / 16 * 16;
    }
};

// What the work sees of a tile.
template <class Stored>
struct Tile {
    const TileShape& shape;
    std::size_t first_row;
    std::uint32_t samples;        // of this tile: fewer than shape.samples() at the end of the array
    const Stored* elements;
    const Wide<Stored>* scales;
    Stored* out;                  // at the tile's first sample
};

template <class Stored, class Work>
struct RowsBody {
    const Stored* x;
    Stored* out;
    TileShape shape;
    double clip_norm;
    double unit;      // the grid, or 1
    Work work;
    Report* report;

    template <class Team>
    HUSHVEC_INLINE void run(std::size_t block, TileMemory<Stored> memory, const Team& team) const {
        const std::size_t first_row = block * shape.rows_at_once;
        const std::size_t rows_left = shape.rows - first_row;
        const std::uint32_t rows = rows_left < shape.rows_at_once ? static_cast<std::uint32_t>(rows_left) : shape.rows_at_once;
        const std::uint32_t samples = rows * shape.columns;
        const Stored* from = x + first_row * shape.columns;

        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            load(from, samples, memory.elements, thread);
            // The last group may reach into rows behind the end: zeros, as its elements there.
            HUSHVEC_UNROLL_BY(1)
            for (std::uint32_t row = rows + thread; row < shape.rows_at_once; row += kTileThreads) memory.scales[row] = 0;
        });
        team.sums(
            rows, [&](std::uint32_t row, unsigned t) HUSHVEC_INLINE_LAMBDA { return accumulate(memory.elements, row, t); },
            [&](std::uint32_t row, double sum) HUSHVEC_INLINE_LAMBDA { memory.squares[row] = sum; });
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            HUSHVEC_UNROLL_BY(1)
            for (std::uint32_t row = thread; row < rows; row += kTileThreads) memory.scales[row] = find_scale(memory, row, first_row);
        });
        const Tile<Stored> tile = {shape, first_row, samples, memory.elements, memory.scales, out + first_row * shape.columns};
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA { work.run(tile, thread); });
    }

private:
    HUSHVEC_INLINE void load(const Stored* from, std::uint32_t samples, Stored* elements, unsigned thread) const {
        constexpr std::uint32_t kPerCopy = 16 / sizeof(Stored);
        const bool aligned = reinterpret_cast<std::uintptr_t>(from) % 16 == 0;
        const std::uint32_t copies = aligned ? samples / kPerCopy : 0;
        for (std::uint32_t i = thread; i < copies; i += kTileThreads) copy_16_bytes(elements + i * kPerCopy, from + i * kPerCopy);
        // The rest is short, or the array unaligned: code that is small, not fast.
        HUSHVEC_UNROLL_BY(1)
        for (std::uint32_t i = copies * kPerCopy + thread; i < samples; i += kTileThreads) elements[i] = from[i];
        const std::uint32_t whole = (samples + kGroup - 1) / kGroup * kGroup;
        HUSHVEC_UNROLL_BY(1)
        for (std::uint32_t i = samples + thread; i < whole; i += kTileThreads) elements[i] = Stored{};
        wait_for_copies();
    }

    HUSHVEC_INLINE double accumulate(const Stored* elements, std::uint32_t row, unsigned t) const {
        const Stored* const first = elements + row * shape.columns;
        return accumulator(shape.columns, t, [first](std::uint32_t j) { return first[j]; });
    }

    HUSHVEC_INLINE Wide<Stored> find_scale(TileMemory<Stored> memory, std::uint32_t row, std::size_t first_row) const {
        Stored* const first = memory.elements + row * shape.columns;
        const double scale = scale_from<Wide<Stored>>(memory.squares[row], shape.columns, clip_norm,
                                                      [first](std::size_t j) { return first[j]; });
        if (!std::isnan(scale)) return in_grid_units(scale, unit, Wide<Stored>{});
        atomic_minimum(&report->first_bad_row, first_row + row);
        HUSHVEC_UNROLL_BY(1)
        for (std::uint32_t j = 0; j < shape.columns; ++j) first[j] = Stored{};
        return 0;
    }
};

// ---- what is done with a tile ----

template <class Stored>
struct ClipWork {
    HUSHVEC_INLINE void run(const Tile<Stored>& tile, unsigned thread) const {
        for (std::uint32_t i = thread; i < tile.samples; i += kTileThreads) {
            const Wide<Stored> scale = tile.scales[tile.shape.by_columns.divide(i)];
            tile.out[i] = narrowed_toward_zero<Stored>(widened(tile.elements[i]) * scale);
        }
    }
};

// The scales that a thread meets on its way through a group, 16 samples at a step; rows are longer than that.
template <class Scale>
struct ScaleCursor {
    const Scale* scale;
    std::uint32_t column, columns;

    HUSHVEC_INLINE ScaleCursor(const Scale* scales, const TileShape& shape, std::uint32_t sample) : columns(shape.columns) {
        const std::uint32_t row = shape.by_columns.divide(sample);
        scale = scales + row;
        column = sample - row * columns;
    }
    // The scale here; then on to the next word.
    HUSHVEC_INLINE Scale next() {
        const Scale here = *scale;
        column += kLanes;
        if (column >= columns) {
            column -= columns;
            ++scale;
        }
        return here;
    }
};

// kRowOfGroup: a group lies in one row.
template <class Stored, class Noise, bool kRowOfGroup>
struct NoiseWork {
    CallStream source;
    Noise noise;

    HUSHVEC_INLINE void run(const Tile<Stored>& tile, unsigned thread) const {
        ThreadNoise<Noise> thread_noise(noise, source);
        const unsigned lane = thread % kLanes;
        const std::uint64_t first_group = tile.first_row * tile.shape.columns / kGroupSamples;
        for (std::uint32_t group = thread / kLanes; group * kGroup < tile.samples; group += kTileHalfWarps) {
            const std::uint32_t first = group * kGroup + lane;
            const Stored* const from = tile.elements + first;
            Stored* const target = tile.out + first;
            const std::uint32_t left = left_from(first, tile.samples, kGroup);
            // Words w and w + 8 take turns, each half in order.
            ScaleCursor<Wide<Stored>> low(tile.scales, tile.shape, first), high(tile.scales, tile.shape, first + kGroup / 2);
            const Wide<Stored> group_scale = *low.scale;
            thread_noise.block(
                first_group + group, lane,
                [&](unsigned word) HUSHVEC_INLINE_LAMBDA {
                    const Wide<Stored> x = widened(from[word * kLanes]);
                    return x * (kRowOfGroup ? group_scale : (word < 8 ? low.next() : high.next()));
                },
                [=](unsigned word, auto y) HUSHVEC_INLINE_LAMBDA {
                    if (kRowOfGroup || word * kLanes < left) target[word * kLanes] = narrowed<Stored>(y);   // rows of whole groups make tiles of them
                });
        }
    }
};

}  // namespace hushvec::cuda
