// The noisy sum of clipped rows (docs/format.md section 7): per-sample gradients, clipped, added and noised.
//
// Elements are cut to whole units, some 2^-25 of clip_norm, so that a float64 sum of them is exact in whatever order it is made.
#pragma once

#include "device/noise.hpp"
#include "device/row_norm.hpp"
#include "device/source.hpp"
#include "device/stream_body.hpp"

namespace hushvec::cuda {

inline constexpr std::size_t kNormStretch = 8192;    // elements whose squares one warp adds up; part of the format
inline constexpr unsigned kSumRows = 64;             // rows one block of columns adds before it adds to memory

// partial[row * stretches + k] = the sum of squares of stretch k of the row. A warp a stretch.
template <class Stored>
struct StretchNormsBody {
    const Stored* x;
    std::size_t rows;
    std::size_t columns;
    double* partial;

    HUSHVEC_INLINE std::size_t stretches() const { return (columns + kNormStretch - 1) / kNormStretch; }

    template <class Team>
    HUSHVEC_INLINE void run(std::size_t block, const Team& team) const {
        const std::size_t first = block * kStreamWarps;
        team.sums(
            items_of_block(block, rows * stretches()),
            [&](std::uint32_t i, unsigned t) HUSHVEC_INLINE_LAMBDA { return term(first + i, t); },
            [&](std::uint32_t i, double sum) HUSHVEC_INLINE_LAMBDA { partial[first + i] = sum; });
    }

private:
    HUSHVEC_INLINE double term(std::size_t index, unsigned t) const {
        const std::size_t first = index % stretches() * kNormStretch;
        const std::size_t length = columns - first < kNormStretch ? columns - first : kNormStretch;
        const Stored* elements = x + index / stretches() * columns + first;
        return accumulator(length, t, [elements](std::size_t j) { return elements[j]; });
    }
};

// squares[row] += the row's partial sums of one part, which are added in the order of section 4 too; behind the last part, scales[row].
// A warp a row.
struct JoinNormsBody {
    const double* partial;
    std::size_t rows;
    std::size_t stretches;
    bool first_part;
    bool last_part;
    double clip_norm;
    double unit;       // of the sum
    double* squares;
    float* scales;     // in units
    Report* report;

    template <class Team>
    HUSHVEC_INLINE void run(std::size_t block, const Team& team) const {
        const std::size_t first = block * kStreamWarps;
        team.sums(
            items_of_block(block, rows), [&](std::uint32_t i, unsigned t) HUSHVEC_INLINE_LAMBDA { return term(first + i, t); },
            [&](std::uint32_t i, double sum) HUSHVEC_INLINE_LAMBDA {
                const std::size_t row = first + i;
                squares[row] = first_part ? sum : squares[row] + sum;
                if (last_part) finish(row);
            });
    }

private:
    HUSHVEC_INLINE double term(std::size_t row, unsigned t) const {
        double sum = 0;
        for (std::size_t k = t; k < stretches; k += kWarp) sum += partial[row * stretches + k];
        return sum;
    }

    HUSHVEC_INLINE void finish(std::size_t row) const {
        const double scale = float32_scale(squares[row], clip_norm);
        if (std::isnan(scale)) atomic_minimum(&report->first_bad_row, row);
        scales[row] = std::isnan(scale) ? static_cast<float>(scale) : in_grid_units(scale, unit, float{});
    }
};

HUSHVEC_INLINE double whole_units(float x) { return static_cast<double>(std::trunc(x)); }

HUSHVEC_INLINE void atomic_sum(double* target, double value) {
#if defined(__CUDA_ARCH__)
    atomicAdd(target, value);
#else
    *target += value;
#endif
}

// sums[column] += the whole units of up to kSumRows rows. A thread a column.
template <class Stored>
struct ColumnSumsBody {
    const Stored* x;
    std::size_t rows;
    std::size_t columns;
    const float* scales;
    double* sums;

    template <class Team>
    HUSHVEC_INLINE void run(std::size_t column_block, std::size_t row_block, const Team& team) const {
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            const std::size_t column = column_block * kStreamThreads + thread;
            if (column >= columns) return;
            const std::size_t first = row_block * kSumRows;
            const std::size_t last = first + kSumRows < rows ? first + kSumRows : rows;
            double sum = 0;
            HUSHVEC_UNROLL_BY(8)
            for (std::size_t row = first; row < last; ++row) {
                sum += whole_units(scaled_or_zero(x[row * columns + column], scales[row]));
            }
            atomic_sum(sums + column, sum);
        });
    }
};

// out = g round(sums unit / g + s Z), for sums of at most 2^21 g.
struct SumNoiseBody {
    CallStream source;
    ExactGaussian<double> noise;
    const double* sums;
    double sum_in_grids;   // unit / g
    std::size_t columns;
    float* out;

    template <class Team>
    HUSHVEC_INLINE void run(std::size_t block, const Team& team) const {
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            ThreadNoise<ExactGaussian<double>> thread_noise(noise, source);
            const unsigned lane = thread % kGroupBlocks;
            const std::size_t group = block * (kStreamThreads / kGroupBlocks) + thread / kGroupBlocks;
            const std::size_t first = group * kGroupSamples + lane;
            if (group * kGroupSamples >= columns) return;
            thread_noise.block(
                group, lane,
                [&](unsigned word) HUSHVEC_INLINE_LAMBDA {
                    const std::size_t column = first + word * kGroupBlocks;
                    return column < columns ? sums[column] * sum_in_grids : 0.0;
                },
                [&](unsigned word, float y) HUSHVEC_INLINE_LAMBDA {
                    const std::size_t column = first + word * kGroupBlocks;
                    if (column < columns) out[column] = y;
                });
        });
    }
};

}  // namespace hushvec::cuda
