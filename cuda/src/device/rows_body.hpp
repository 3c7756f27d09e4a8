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
// Blocks that a multiprocessor should hold, which caps their registers at 80: 24 warps. With four more, some kernels spill,
// float64 rows do so with 24.
template <class Stored>
constexpr unsigned tiles_at_once(unsigned threads) { return (sizeof(Stored) > sizeof(float) ? 16 : 24) * kWarp / threads; }
inline constexpr std::uint32_t kGroup = kGroupSamples;   // tiles count in 32 bits
inline constexpr std::uint32_t kLanes = kGroupBlocks;

// n / divisor for n and divisor below 2^17: n * (2^40 / divisor, rounded up) / 2^40 is off by less than 1 / divisor.
struct SmallDivisor {
    std::uint64_t factor;

    explicit SmallDivisor(std::uint32_t divisor) : factor((std::uint64_t{1} << 40) / divisor + 1) {}
    HUSHVEC_INLINE std::uint32_t divide(std::uint32_t n) const { return static_cast<std::uint32_t>((n * factor) >> 40); }
};

// kSpan: the samples that begin where tiles may, and that half a warp makes at a time.
template <std::uint32_t kSpan = kGroup>
struct TileShape {
    std::size_t rows;
    std::uint32_t columns;
    std::uint32_t rows_at_once;
    SmallDivisor by_columns;

    HUSHVEC_INLINE std::uint32_t samples() const { return rows_at_once * columns; }
    HUSHVEC_INLINE bool whole_groups() const { return samples() % kSpan == 0; }
    std::size_t tiles() const { return (rows + rows_at_once - 1) / rows_at_once; }

    // Rows of other tiles that the first and the last span reach into, at most.
    HUSHVEC_INLINE std::uint32_t edge_rows() const { return whole_groups() ? 0 : by_columns.divide(kSpan - 2 + columns); }
    // What lies in shared memory.
    HUSHVEC_INLINE std::uint32_t spans() const { return (samples() + (whole_groups() ? 0 : 2 * (kSpan - 1))) / kSpan; }
    HUSHVEC_INLINE std::uint32_t samples_of_spans() const { return spans() * kSpan; }
    HUSHVEC_INLINE std::uint32_t scales() const { return rows_at_once + 2 * edge_rows(); }
};

// A tile's share of a block's memory: pointers, the same in every thread.
template <class Stored>
struct TileMemory {
    double* squares;            // rows_at_once sums
    Wide<Stored>* scales;       // of the rows that any span reaches into
    Stored* elements;           // of whole spans

    template <class Shape>
    HUSHVEC_INLINE TileMemory(void* memory, const Shape& shape)
        : squares(static_cast<double*>(memory)), scales(reinterpret_cast<Wide<Stored>*>(squares + shape.rows_at_once)),
          elements(reinterpret_cast<Stored*>(static_cast<std::byte*>(memory) + row_bytes(shape))) {}

    template <class Tiles>
    static std::size_t bytes(const TileShape<Tiles::kSpan>& shape) {
        std::size_t bytes = row_bytes(shape) + shape.samples_of_spans() * sizeof(Stored);
        if constexpr (Tiles::kLists) bytes += Tiles::list_bytes(shape.samples_of_spans());
        return bytes;
    }

private:
    template <class Shape>
    HUSHVEC_INLINE static std::size_t row_bytes(const Shape& shape) {
        return (shape.rows_at_once * sizeof(double) + shape.scales() * sizeof(Wide<Stored>) + 15) / 16 * 16;
    }
};

// What the work sees of a tile. In shared memory its samples are [begin, end) of whole spans, the first of which is `first_span`
// of the call; sample 0 there is column `column` of the row that scales[0] is for.
template <class Stored, std::uint32_t kSpan>
struct Tile {
    const TileShape<kSpan>& shape;
    std::uint64_t first_span;
    std::uint32_t begin, end;
    std::uint32_t column;
    const Stored* elements;
    const Wide<Stored>* scales;
    Stored* out;                  // where sample 0 of shared memory would go
    void* behind;                 // the elements: the work's list
};

template <class Stored, class Work>
struct RowsBody {
    static constexpr unsigned kThreads = Work::kThreads;
    static constexpr std::uint32_t kSpan = Work::kSpan;

    const Stored* x;
    Stored* out;
    TileShape<kSpan> shape;
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
        const std::uint32_t begin = Work::kWholeGroups || shape.whole_groups() ? 0 : static_cast<std::uint32_t>(first_sample % kSpan);
        const std::uint32_t end = begin + rows * shape.columns;
        // Rows that the first span begins in.
        const std::uint32_t edge = begin == 0 ? 0 : shape.by_columns.divide(begin + shape.columns - 1);
        Stored* const elements = memory.elements + begin;
        Wide<Stored>* const scales = memory.scales + edge;
        void* const behind = memory.elements + shape.samples_of_spans();

        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            load(x + first_sample, end - begin, elements, thread);
            if constexpr (!Work::kWholeGroups) {
                clear(memory.elements, 0, begin, thread);
                clear(memory.elements, end, (end + kSpan - 1) / kSpan * kSpan, thread);
                clear(memory.scales, 0, edge, thread);
                clear(memory.scales, edge + rows, shape.scales(), thread);
            }
            if constexpr (Work::kLists) work.begin(behind, shape.samples_of_spans(), thread);
            wait_for_copies();
        });
        team.sums(
            rows, [&](std::uint32_t row, unsigned t) HUSHVEC_INLINE_LAMBDA { return accumulate(elements, row, t); },
            [&](std::uint32_t row, double sum) HUSHVEC_INLINE_LAMBDA { memory.squares[row] = sum; });
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            HUSHVEC_UNROLL_BY(1)
            for (std::uint32_t row = thread; row < rows; row += kThreads) {
                scales[row] = find_scale(memory.squares[row], elements + row * shape.columns, first_row + row);
            }
        });
        const Tile<Stored, kSpan> tile = {shape, first_sample / kSpan, begin, end, edge * shape.columns - begin,
                                          memory.elements, memory.scales, out + first_sample - begin, behind};
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA { work.run(tile, thread); });
        if constexpr (Work::kLists) team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA { work.finish(tile, thread); });
    }

private:
    HUSHVEC_INLINE void load(const Stored* from, std::uint32_t samples, Stored* elements, unsigned thread) const {
        constexpr std::uint32_t kPerCopy = 16 / sizeof(Stored);
        const bool aligned = (reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(elements)) % 16 == 0;
        const std::uint32_t copies = aligned ? samples / kPerCopy : 0;
        for (std::uint32_t i = thread; i < copies; i += kThreads) copy_16_bytes(elements + i * kPerCopy, from + i * kPerCopy);
        // The rest is short, or the array unaligned: code that is small, not fast.
        HUSHVEC_UNROLL_BY(1)
        for (std::uint32_t i = copies * kPerCopy + thread; i < samples; i += kThreads) elements[i] = from[i];
    }

    template <class Value>
    static HUSHVEC_INLINE void clear(Value* values, std::uint32_t first, std::uint32_t last, unsigned thread) {
        HUSHVEC_UNROLL_BY(1)
        for (std::uint32_t i = first + thread; i < last; i += kThreads) values[i] = Value{};
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

// How a work cuts its tiles.
struct TilesOfGroups {
    static constexpr std::uint32_t kSpan = kGroup;
    static constexpr unsigned kThreads = kTileThreads;
    static constexpr bool kLists = false;   // whether it has a list behind the elements, and begin and finish
};

template <class Stored>
struct ClipWork : TilesOfGroups {
    static constexpr bool kWholeGroups = true;   // it knows no groups

    HUSHVEC_INLINE void run(const Tile<Stored, kGroup>& tile, unsigned thread) const {
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

    template <class Shape>
    HUSHVEC_INLINE ScaleCursor(const Scale* scales, const Shape& shape, std::uint32_t sample) : columns(shape.columns) {
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

// A bit for each word of the lane whose sample comes before `bound`; word 0 is sample `first`.
HUSHVEC_INLINE std::uint32_t words_before(std::uint32_t bound, std::uint32_t first) {
    const std::uint32_t samples = left_from(first, bound, kGroup);
    return (1u << (samples + kLanes - 1) / kLanes) - 1;
}

// Calls with how to read and to write the 16 samples of a lane in a group of a tile, which begins at sample group * 256 in shared
// memory, and with a bit for each that is the tile's. Words w and w + 8 take turns, each half in order. kRowOfGroup: the group
// lies in one row, and is all the tile's.
template <bool kRowOfGroup, class Stored, std::uint32_t kSpan, class Call>
HUSHVEC_INLINE void with_samples(const Tile<Stored, kSpan>& tile, std::uint32_t group, unsigned lane, Call call) {
    const std::uint32_t first = group * kGroup + lane;
    const Stored* const from = tile.elements + first;
    Stored* const target = tile.out + first;
    const std::uint32_t own = kRowOfGroup ? ~0u : words_before(tile.end, first) & ~words_before(tile.begin, first);
    ScaleCursor<Wide<Stored>> low(tile.scales, tile.shape, tile.column + first);
    ScaleCursor<Wide<Stored>> high(tile.scales, tile.shape, tile.column + first + kGroup / 2);
    const Wide<Stored> group_scale = *low.scale;
    call(
        [&](unsigned word) HUSHVEC_INLINE_LAMBDA {
            const Wide<Stored> x = widened(from[word * kLanes]);
            return x * (kRowOfGroup ? group_scale : (word < 8 ? low.next() : high.next()));
        },
        [=](unsigned word, auto y) HUSHVEC_INLINE_LAMBDA {
            if (kRowOfGroup || (own >> word) % 2 != 0) target[word * kLanes] = narrowed<Stored>(y);
        },
        own);
}

// kRowOfGroup: a group lies in one row, and tiles hold whole groups.
template <class Stored, class Noise, bool kRowOfGroup>
struct NoiseWork : TilesOfGroups {
    static constexpr bool kWholeGroups = kRowOfGroup;   // every tile, the last too
    CallStream source;
    Noise noise;

    HUSHVEC_INLINE NoiseWork(const CallStream& from, const Noise& of) : source(from), noise(of) {}

    HUSHVEC_INLINE void run(const Tile<Stored, kGroup>& tile, unsigned thread) const {
        ThreadNoise<Noise> thread_noise(noise, source);
        const unsigned lane = thread % kLanes;
        for (std::uint32_t group = thread / kLanes; group * kGroup < tile.end; group += kTileThreads / kLanes) {
            with_samples<kRowOfGroup>(tile, group, lane, [&](auto read, auto write, std::uint32_t own) HUSHVEC_INLINE_LAMBDA {
                thread_noise.block(tile.first_span + group, lane, read, write, own);
            });
        }
    }
};

}  // namespace hushvec::cuda
