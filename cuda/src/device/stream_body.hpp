// Rows of any length, in two kernels: the scale of every row into memory, then the work on any stretch of samples.
// x is read twice. rows_body.hpp is for rows that fit shared memory.
#pragma once

#include "device/half_noise.hpp"
#include "device/noise.hpp"
#include "device/row_norm.hpp"
#include "device/source.hpp"
#include "device/team.hpp"

namespace hushvec::cuda {

inline constexpr unsigned kStreamThreads = 256;
inline constexpr unsigned kStreamWarps = kStreamThreads / kWarp;

// How many of `count` items, a warp each, are the block's.
HUSHVEC_INLINE std::uint32_t items_of_block(std::size_t block, std::size_t count) { return left_from(block * kStreamWarps, count, kStreamWarps); }

// scales[row] = q, NaN for a row with NaN or Inf. A warp a row.
template <class Stored>
struct RowScalesBody {
    const Stored* x;
    std::size_t rows;
    std::size_t columns;
    double clip_norm;
    double unit;
    Wide<Stored>* scales;
    Report* report;

    template <class Team>
    HUSHVEC_INLINE void run(std::size_t block, const Team& team) const {
        const std::size_t first = block * kStreamWarps;
        team.sums(
            items_of_block(block, rows),
            [&](std::uint32_t i, unsigned t) HUSHVEC_INLINE_LAMBDA { return accumulator(columns, t, reader(first + i)); },
            [&](std::uint32_t i, double sum) HUSHVEC_INLINE_LAMBDA { find_scale(first + i, sum); });
    }

private:
    HUSHVEC_INLINE auto reader(std::size_t row) const {
        const Stored* elements = x + row * columns;
        return [elements](std::size_t j) { return elements[j]; };
    }

    HUSHVEC_INLINE void find_scale(std::size_t row, double sum_of_squares) const {
        const double scale = scale_from<Wide<Stored>>(sum_of_squares, columns, clip_norm, reader(row));
        if (std::isnan(scale)) {
            atomic_minimum(&report->first_bad_row, row);
            scales[row] = static_cast<Wide<Stored>>(scale);
        } else {
            scales[row] = in_grid_units(scale, unit, Wide<Stored>{});
        }
    }
};

// X, with zeros for a row whose scale is NaN.
template <class Stored>
HUSHVEC_INLINE Wide<Stored> scaled_or_zero(Stored x, Wide<Stored> scale) {
    return std::isnan(scale) ? Wide<Stored>{0} : widened(x) * scale;
}

template <class Stored>
struct StreamClipBody {
    const Stored* x;
    Stored* out;
    std::size_t rows;
    std::size_t columns;
    const Wide<Stored>* scales;

    template <class Team>
    HUSHVEC_INLINE void run(std::size_t block, std::size_t blocks, const Team& team) const {
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            for (std::size_t row = block; row < rows; row += blocks) {
                const Wide<Stored> scale = scales[row];
                for (std::size_t j = thread; j < columns; j += kStreamThreads) {
                    out[row * columns + j] = narrowed_toward_zero<Stored>(scaled_or_zero(x[row * columns + j], scale));
                }
            }
        });
    }
};

// The row of a sample that moves on in steps.
struct RowCursor {
    std::size_t row, column, columns;

    HUSHVEC_INLINE RowCursor(std::size_t sample, std::size_t row_length)
        : row(sample / row_length), column(sample % row_length), columns(row_length) {}
    HUSHVEC_INLINE void advance(std::size_t samples) {
        column += samples;
        while (column >= columns) {
            column -= columns;
            ++row;
        }
    }
};

// Rows as the noise of any group of samples reads and writes them.
template <class Stored>
struct StreamedRows {
    const Stored* x;
    Stored* out;
    std::size_t rows;
    std::size_t columns;
    const Wide<Stored>* scales;

    HUSHVEC_INLINE std::size_t count() const { return rows * columns; }

    // Calls with how to read and to write the 16 samples of a lane in a group, and how many samples are left there, from the
    // lane's first on. Words w and w + 8 take turns, each half in order.
    template <class Call>
    HUSHVEC_INLINE void with_samples(std::size_t group, unsigned lane, Call call) const {
        const std::size_t first = group * kGroupSamples + lane;
        const Stored* const from = x + first;
        Stored* const target = out + first;
        const std::uint32_t left = left_from(first, count(), kGroupSamples);
        RowCursor low(first, columns), high(first + kHalfGroup, columns);
        call(
            [&](unsigned word) HUSHVEC_INLINE_LAMBDA {
                RowCursor& cursor = word < 8 ? low : high;
                const auto X = word * kGroupBlocks < left ? scaled_or_zero(from[word * kGroupBlocks], scales[cursor.row]) : Wide<Stored>{0};
                cursor.advance(kGroupBlocks);
                return X;
            },
            [=](unsigned word, auto y) HUSHVEC_INLINE_LAMBDA {
                if (word * kGroupBlocks < left) target[word * kGroupBlocks] = narrowed<Stored>(y);
            });
    }
};

// Calls work(index, lane) for what is a half warp's of `count` items.
template <class Work>
HUSHVEC_INLINE void by_half_warps(std::size_t block, std::size_t blocks, unsigned thread, std::size_t count, Work work) {
    constexpr std::size_t kHalfWarps = kStreamThreads / kGroupBlocks;
    for (std::size_t i = block * kHalfWarps + thread / kGroupBlocks; i < count; i += blocks * kHalfWarps) work(i, thread % kGroupBlocks);
}

template <class Stored, class Noise>
struct StreamNoiseBody {
    CallStream source;
    Noise noise;
    StreamedRows<Stored> rows;

    template <class Team>
    HUSHVEC_INLINE void run(std::size_t block, std::size_t blocks, const Team& team) const {
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            ThreadNoise<Noise> thread_noise(noise, source);
            const std::size_t groups = (rows.count() + kGroupSamples - 1) / kGroupSamples;
            by_half_warps(block, blocks, thread, groups, [&](std::size_t group, unsigned lane) HUSHVEC_INLINE_LAMBDA {
                rows.with_samples(group, lane, [&](auto read, auto write) HUSHVEC_INLINE_LAMBDA {
                    thread_noise.block(group, lane, read, write);
                });
            });
        });
    }
};

// Version 3. What level 0 leaves open goes to the list at once.
template <class Stored, class Noise>
struct StreamHalfNoiseBody {
    CallStream source;
    Noise noise;
    OpenPairs open;
    StreamedRows<Stored> rows;

    template <class Team>
    HUSHVEC_INLINE void run(std::size_t block, std::size_t blocks, const Team& team) const {
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            ThreadHalfNoise<Noise> thread_noise(noise, source);
            const std::size_t groups = (rows.count() + kGroupSamples - 1) / kGroupSamples;
            const std::size_t blocks_of_stream = (groups + kHalfWordGroups - 1) / kHalfWordGroups;
            by_half_warps(block, blocks, thread, blocks_of_stream, [&](std::size_t number, unsigned lane) HUSHVEC_INLINE_LAMBDA {
                thread_noise.block(number, lane, [&](std::uint32_t part, auto go_on) HUSHVEC_INLINE_LAMBDA {
                    const std::size_t group = number * kHalfWordGroups + part;
                    if (group >= groups) return;
                    rows.with_samples(group, lane, [&](auto read, auto write) HUSHVEC_INLINE_LAMBDA {
                        go_on(read, write, [&](unsigned w, std::uint32_t word, auto x_first, auto x_second) HUSHVEC_INLINE_LAMBDA {
                            open.add({group * kGroupPairs + w * kGroupBlocks + lane, {word, 0}, {double{x_first}, double{x_second}}});
                        });
                    });
                });
            });
        });
    }
};

}  // namespace hushvec::cuda
