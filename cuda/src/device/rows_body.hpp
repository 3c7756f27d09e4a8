// Rows that fit shared memory: each tile of whole rows is read once, clipped, worked on and written once.
//
//   load      tile -> shared memory, 16 bytes at a time where the array's alignment allows
//   norms     a warp a row, then a thread a row for the scales; a row with NaN or Inf is reported and becomes zeros
//   work      clip, or noise by half warps: a group each
//
// A tile may end within a group. Then both tiles make the group, each for the samples that are its own: in shared memory a tile begins
// where its first group does, and what belongs to other tiles is zeros.
#pragma once

#include "device/noise.hpp"
#include "device/row_norm.hpp"
#include "device/source.hpp"
#include "device/team.hpp"

namespace hushvec::cuda {

inline constexpr unsigned kTileThreads = 128;
// Blocks that a multiprocessor should hold, which caps their registers at 80: 24 warps. With one more, some kernels spill, float64 rows do so
// with six.
template <class Stored>
inline constexpr unsigned kTilesAtOnce = sizeof(Stored) > sizeof(float) ? 4 : 6;
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
    std::uint32_t rows_at_once;
    SmallDivisor by_columns;

    HUSHVEC_INLINE std::uint32_t samples() const { return rows_at_once * columns; }
    HUSHVEC_INLINE bool whole_groups() const { return samples() % kGroup == 0; }
    std::size_t tiles() const { return (rows + rows_at_once - 1) / rows_at_once; }

    // Rows of other tiles that the first and the last group reach into, at most.
    HUSHVEC_INLINE std::uint32_t edge_rows() const { return whole_groups() ? 0 : by_columns.divide(kGroup - 2 + columns); }
    // What lies in shared memory.
    HUSHVEC_INLINE std::uint32_t groups() const { return (samples() + (whole_groups() ? 0 : 2 * (kGroup - 1))) / kGroup; }
    HUSHVEC_INLINE std::uint32_t scales() const { return rows_at_once + 2 * edge_rows(); }
};

// A tile's share of a block's memory: pointers, the same in every thread.
template <class Stored>
struct TileMemory {
    double* squares;            // rows_at_once sums
    Wide<Stored>* scales;       // of the rows that any group reaches into
    Stored* elements;           // of whole groups

    HUSHVEC_INLINE TileMemory(void* memory, const TileShape& shape)
        : squares(static_cast<double*>(memory)), scales(reinterpret_cast<Wide<Stored>*>(squares + shape.rows_at_once)),
          elements(reinterpret_cast<Stored*>(static_cast<std::byte*>(memory) + row_bytes(shape))) {}

    static std::size_t bytes(const TileShape& shape) { return row_bytes(shape) + shape.groups() * kGroup * sizeof(Stored); }

private:
    HUSHVEC_INLINE static std::size_t row_bytes(const TileShape& shape) {
        return (shape.rows_at_once * sizeof(double) + shape.scales() * sizeof(Wide<Stored>) + 15) / 16 * 16;
    }
};

// What the work sees of a tile. In shared memory its samples are [begin, end) of whole groups, the first of which is `first_group` of the
// call; sample 0 there is column `column` of the row that scales[0] is for.
template <class Stored>
struct Tile {
    const TileShape& shape;
    std::uint64_t first_group;
    std::uint32_t begin, end;
    std::uint32_t column;
    const Stored* elements;
    const Wide<Stored>* scales;
    Stored* out;                  // where sample 0 of shared memory would go
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
        const std::size_t first_sample = first_row * shape.columns;
        const std::size_t rows_left = shape.rows - first_row;
        const std::uint32_t rows = rows_left < shape.rows_at_once ? static_cast<std::uint32_t>(rows_left) : shape.rows_at_once;
        const std::uint32_t begin = Work::kWholeGroups || shape.whole_groups() ? 0 : static_cast<std::uint32_t>(first_sample % kGroup);
        const std::uint32_t end = begin + rows * shape.columns;
        const std::uint32_t edge = begin == 0 ? 0 : shape.by_columns.divide(begin + shape.columns - 1);   // rows that the first group begins in
        Stored* const elements = memory.elements + begin;
        Wide<Stored>* const scales = memory.scales + edge;

        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            load(x + first_sample, end - begin, elements, thread);
            if constexpr (!Work::kWholeGroups) {
                clear(memory.elements, 0, begin, thread);
                clear(memory.elements, end, (end + kGroup - 1) / kGroup * kGroup, thread);
                clear(memory.scales, 0, edge, thread);
                clear(memory.scales, edge + rows, shape.scales(), thread);
            }
            wait_for_copies();
        });
        team.sums(
            rows, [&](std::uint32_t row, unsigned t) HUSHVEC_INLINE_LAMBDA { return accumulate(elements, row, t); },
            [&](std::uint32_t row, double sum) HUSHVEC_INLINE_LAMBDA { memory.squares[row] = sum; });
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            HUSHVEC_UNROLL_BY(1)
            for (std::uint32_t row = thread; row < rows; row += kTileThreads) {
                scales[row] = find_scale(memory.squares[row], elements + row * shape.columns, first_row + row);
            }
        });
        const Tile<Stored> tile = {shape, first_sample / kGroupSamples, begin, end, edge * shape.columns - begin, memory.elements, memory.scales,
                                   out + first_sample - begin};
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA { work.run(tile, thread); });
    }

private:
    HUSHVEC_INLINE void load(const Stored* from, std::uint32_t samples, Stored* elements, unsigned thread) const {
        constexpr std::uint32_t kPerCopy = 16 / sizeof(Stored);
        const bool aligned = (reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(elements)) % 16 == 0;
        const std::uint32_t copies = aligned ? samples / kPerCopy : 0;
        for (std::uint32_t i = thread; i < copies; i += kTileThreads) copy_16_bytes(elements + i * kPerCopy, from + i * kPerCopy);
        // The rest is short, or the array unaligned: code that is small, not fast.
        HUSHVEC_UNROLL_BY(1)
        for (std::uint32_t i = copies * kPerCopy + thread; i < samples; i += kTileThreads) elements[i] = from[i];
    }

    template <class Value>
    static HUSHVEC_INLINE void clear(Value* values, std::uint32_t first, std::uint32_t last, unsigned thread) {
        HUSHVEC_UNROLL_BY(1)
        for (std::uint32_t i = first + thread; i < last; i += kTileThreads) values[i] = Value{};
    }

    HUSHVEC_INLINE double accumulate(const Stored* elements, std::uint32_t row, unsigned t) const {
        const Stored* const first = elements + row * shape.columns;
        return accumulator(shape.columns, t, [first](std::uint32_t j) { return first[j]; });
    }

    HUSHVEC_INLINE Wide<Stored> find_scale(double sum_of_squares, Stored* first, std::size_t row) const {
        const double scale = scale_from<Wide<Stored>>(sum_of_squares, shape.columns, clip_norm, [first](std::size_t j) { return first[j]; });
        if (!std::isnan(scale)) return in_grid_units(scale, unit, Wide<Stored>{});
        atomic_minimum(&report->first_bad_row, row);
        HUSHVEC_UNROLL_BY(1)
        for (std::uint32_t j = 0; j < shape.columns; ++j) first[j] = Stored{};
        return 0;
    }
};

// ---- what is done with a tile ----

template <class Stored>
struct ClipWork {
    static constexpr bool kWholeGroups = true;   // it knows no groups

    HUSHVEC_INLINE void run(const Tile<Stored>& tile, unsigned thread) const {
        for (std::uint32_t i = tile.begin + thread; i < tile.end; i += kTileThreads) {
            const Wide<Stored> scale = tile.scales[tile.shape.by_columns.divide(tile.column + i)];
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

// kRowOfGroup: a group lies in one row, and tiles hold whole groups.
template <class Stored, class Noise, bool kRowOfGroup>
struct NoiseWork {
    static constexpr bool kWholeGroups = kRowOfGroup;   // every tile, the last too
    CallStream source;
    Noise noise;

    HUSHVEC_INLINE void run(const Tile<Stored>& tile, unsigned thread) const {
        ThreadNoise<Noise> thread_noise(noise, source);
        const unsigned lane = thread % kLanes;
        for (std::uint32_t group = thread / kLanes; group * kGroup < tile.end; group += kTileHalfWarps) {
            const std::uint32_t first = group * kGroup + lane;
            const Stored* const from = tile.elements + first;
            Stored* const target = tile.out + first;
            const std::uint32_t own = kRowOfGroup ? ~0u : words_before(tile.end, first) & ~words_before(tile.begin, first);
            // Words w and w + 8 take turns, each half in order.
            ScaleCursor<Wide<Stored>> low(tile.scales, tile.shape, tile.column + first), high(tile.scales, tile.shape, tile.column + first + kGroup / 2);
            const Wide<Stored> group_scale = *low.scale;
            thread_noise.block(
                tile.first_group + group, lane,
                [&](unsigned word) HUSHVEC_INLINE_LAMBDA {
                    const Wide<Stored> x = widened(from[word * kLanes]);
                    return x * (kRowOfGroup ? group_scale : (word < 8 ? low.next() : high.next()));
                },
                [=](unsigned word, auto y) HUSHVEC_INLINE_LAMBDA {
                    if (kRowOfGroup || (own >> word) % 2 != 0) target[word * kLanes] = narrowed<Stored>(y);
                },
                own);
        }
    }

private:
    // A bit for each word of the lane whose sample comes before `bound`; word 0 is sample `first`.
    static HUSHVEC_INLINE std::uint32_t words_before(std::uint32_t bound, std::uint32_t first) {
        const std::uint32_t samples = left_from(first, bound, kGroup);
        return (1u << (samples + kLanes - 1) / kLanes) - 1;
    }
};

}  // namespace hushvec::cuda
