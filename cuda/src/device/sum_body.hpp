// The noisy sum of clipped rows (docs/format.md section 7): per-sample gradients, clipped, added and noised.
//
// Elements are cut to whole units, some 2^-25 of clip_norm, so that a float64 sum of them is exact in whatever order it is made.
#pragma once

#include "device/half_noise.hpp"
#include "device/noise.hpp"
#include "device/row_norm.hpp"
#include "device/settled_output.hpp"
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

// One part of the rows, of any dtype.
struct RowsPart {
    const void* x;
    DType dtype;
    std::size_t columns;

    HUSHVEC_INLINE double element(std::size_t i) const {
        switch (dtype) {
            case DType::float64: return static_cast<const double*>(x)[i];
            case DType::float16: return widened(static_cast<const Float16*>(x)[i]);
            case DType::bfloat16: return widened(static_cast<const Bfloat16*>(x)[i]);
            default: return static_cast<const float*>(x)[i];
        }
    }
};

// Rows with a float64 part: scales[row] as for parts without, and in place of squares[row] the same in float64. A thread a row; where the
// squares overflow it walks the row.
struct WideScalesBody {
    const RowsPart* parts;
    std::uint32_t count;
    std::size_t rows;
    double clip_norm;
    double unit;
    double* partial;   // room for the stretches of a part
    double* squares;
    float* scales;
    Report* report;

    template <class Team>
    HUSHVEC_INLINE void run(std::size_t block, const Team& team) const {
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            const std::size_t row = block * kStreamThreads + thread;
            if (row < rows) finish(row);
        });
    }

private:
    HUSHVEC_INLINE void finish(std::size_t row) const {
        const double scale = std::isfinite(squares[row]) ? float64_scale(squares[row], clip_norm) : scale_of_large_row(row);
        const bool bad = std::isnan(scale);
        if (bad) atomic_minimum(&report->first_bad_row, row);
        squares[row] = bad ? scale : in_grid_units(scale, unit, double{});
        scales[row] = bad ? static_cast<float>(scale) : in_grid_units(static_cast<double>(round_toward_zero(scale)), unit, float{});
    }

    // NaN for a row that holds NaN or Inf.
    HUSHVEC_COLD double scale_of_large_row(std::size_t row) const {
        double largest = 0;
        for (std::uint32_t i = 0; i < count; ++i) {
            const RowsPart& part = parts[i];
            for (std::size_t j = 0; j < part.columns; ++j) {
                const double magnitude = std::fabs(part.element(row * part.columns + j));
                if (!std::isfinite(magnitude)) return std::numeric_limits<double>::quiet_NaN();
                largest = magnitude > largest ? magnitude : largest;
            }
        }
        const int exponent = reduction_exponent(largest);
        double sum = 0;
        for (std::uint32_t i = 0; i < count; ++i) sum += reduced_sum(parts[i], row, exponent);
        return reduced_float64_scale(sum, exponent, clip_norm);
    }

    // The sum of squares of the part's elements times 2^-exponent: of float64 ones each element is multiplied, else the sum of a stretch.
    HUSHVEC_COLD double reduced_sum(const RowsPart& part, std::size_t row, int exponent) const {
        const std::size_t stretches = (part.columns + kNormStretch - 1) / kNormStretch;
        double* const of_stretches = partial + row * stretches;
        for (std::size_t k = 0; k < stretches; ++k) of_stretches[k] = reduced_stretch(part, row * part.columns, k * kNormStretch, exponent);
        return joined(of_stretches, stretches);
    }

    // A function of its own, so that only one array of accumulators is on the stack.
    HUSHVEC_COLD static double joined(const double* of_stretches, std::size_t stretches) {
        double accumulators[kWarp] = {};
        for (std::size_t k = 0; k < stretches; ++k) accumulators[k % kWarp] += of_stretches[k];
        return tree_sum(accumulators);
    }

    HUSHVEC_COLD double reduced_stretch(const RowsPart& part, std::size_t row_begin, std::size_t first, int exponent) const {
        const std::size_t last = first + kNormStretch < part.columns ? first + kNormStretch : part.columns;
        const bool wide = part.dtype == DType::float64;
        double accumulators[kWarp] = {};
        for (std::size_t j = first; j < last; ++j) {
            const double x = std::ldexp(part.element(row_begin + j), wide ? -exponent : 0);
            accumulators[j % kWarp] += x * x;
        }
        return std::ldexp(tree_sum(accumulators), wide ? 0 : -2 * exponent);
    }
};

template <class Value>
HUSHVEC_INLINE double whole_units(Value x) { return static_cast<double>(std::trunc(x)); }

HUSHVEC_INLINE void atomic_sum(double* target, double value) {
#if defined(__CUDA_ARCH__)
    atomicAdd(target, value);
#else
    *target += value;
#endif
}

// sums[column] += the whole units of up to kSumRows rows. A thread a column; blocks are numbered in one dimension, since the others have
// room for 65,535.
template <class Stored>
struct ColumnSumsBody {
    const Stored* x;
    std::size_t rows;
    std::size_t columns;
    const Wide<Stored>* scales;
    double* sums;

    // Threads of a block: as many warps as a part of few columns needs.
    unsigned threads() const {
        return columns < kStreamThreads ? (static_cast<unsigned>(columns) + kWarp - 1) / kWarp * kWarp : kStreamThreads;
    }
    HUSHVEC_INLINE std::size_t blocks_of_columns() const { return (columns + kStreamThreads - 1) / kStreamThreads; }
    std::size_t blocks() const { return blocks_of_columns() * ((rows + kSumRows - 1) / kSumRows); }

    template <class Team>
    HUSHVEC_INLINE void run(std::size_t block, const Team& team) const {
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            const std::size_t column = block % blocks_of_columns() * kStreamThreads + thread;
            if (column >= columns) return;
            const std::size_t first = block / blocks_of_columns() * kSumRows;
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

// A part whose sum is released.
struct SumPart {
    const double* sums;
    float* out;
    std::uint64_t columns;
    std::uint64_t first_group;   // how many groups the parts before it have

    // Kernels work on whole groups: behind the last column is nothing.
    HUSHVEC_INLINE double element(std::size_t column, double sum_in_grids) const { return column < columns ? sums[column] * sum_in_grids : 0.0; }
    HUSHVEC_INLINE void store(std::size_t column, float y) const {
        if (column < columns) out[column] = y;
    }
};

// The parts of a release. Part i draws from nonce stream.nonce + i. Lists count groups and pairs through all parts.
struct SumParts {
    KeyStream stream;
    const SumPart* list;
    std::uint32_t count;
    float grid;

    // The last part that begins at the group or before it: parts without columns have no group.
    HUSHVEC_INLINE std::uint32_t of_group(std::uint64_t group) const {
        std::uint32_t part = 0;
        for (std::uint32_t end = count; end - part > 1;) {
            const std::uint32_t middle = part + (end - part) / 2;
            (list[middle].first_group <= group ? part : end) = middle;
        }
        return part;
    }

    HUSHVEC_INLINE CallStream source(std::uint32_t part) const {
        CallStream source = {stream};
        source.stream.nonce += part;
        return source;
    }

    HUSHVEC_INLINE SettledPlace place(std::uint64_t pair) const {
        const std::uint32_t number = of_group(pair / kGroupPairs);
        const SumPart& part = list[number];
        return {source(number), {part.out, DType::float32, part.columns, grid}, pair - part.first_group * kGroupPairs};
    }
};

// out = g round(sums unit / g + s Z), for sums of at most 2^21 g. Half a warp a group.
struct SumNoiseBody {
    SumParts parts;
    std::size_t groups;
    ExactGaussian<double> noise;
    double sum_in_grids;   // unit / g

    template <class Team>
    HUSHVEC_INLINE void run(std::size_t block, const Team& team) const {
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            const std::size_t group = block * (kStreamThreads / kGroupBlocks) + thread / kGroupBlocks;
            if (group >= groups) return;
            const std::uint32_t number = parts.of_group(group);
            const SumPart part = parts.list[number];
            const CallStream source = parts.source(number);
            ExactGaussian<double> of_part = noise;
            of_part.open.first_pair = part.first_group * kGroupPairs;
            ThreadNoise<ExactGaussian<double>> thread_noise(of_part, source);
            const unsigned lane = thread % kGroupBlocks;
            const std::size_t first = (group - part.first_group) * kGroupSamples + lane;
            thread_noise.block(
                group - part.first_group, lane,
                [&](unsigned word) HUSHVEC_INLINE_LAMBDA { return part.element(first + word * kGroupBlocks, sum_in_grids); },
                [&](unsigned word, float y) HUSHVEC_INLINE_LAMBDA { part.store(first + word * kGroupBlocks, y); });
        });
    }
};

// The same of version 3. Half a warp a block of the stream, which is of two groups: parts begin with even ones.
struct HalfSumNoiseBody {
    SumParts parts;
    std::size_t blocks;
    HalfGaussian<double> noise;
    OpenPairs open;
    double sum_in_grids;

    template <class Team>
    HUSHVEC_INLINE void run(std::size_t block, const Team& team) const {
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            const std::size_t item = block * (kStreamThreads / kGroupBlocks) + thread / kGroupBlocks;
            if (item >= blocks) return;
            const std::uint32_t number = parts.of_group(item * kHalfWordGroups);
            const SumPart part = parts.list[number];
            OpenPairs of_part = open;
            of_part.first_pair = part.first_group * kGroupPairs;
            ThreadHalfNoise<HalfGaussian<double>> thread_noise(noise, parts.source(number));
            const unsigned lane = thread % kGroupBlocks;
            const std::size_t of_stream = item - part.first_group / kHalfWordGroups;
            thread_noise.block(of_stream, lane, [&](std::uint32_t half, auto go_on) HUSHVEC_INLINE_LAMBDA {
                const std::size_t group = of_stream * kHalfWordGroups + half, first = group * kGroupSamples + lane;
                go_on(
                    [&](unsigned word) HUSHVEC_INLINE_LAMBDA { return part.element(first + word * kGroupBlocks, sum_in_grids); },
                    [&](unsigned word, float y) HUSHVEC_INLINE_LAMBDA { part.store(first + word * kGroupBlocks, y); },
                    [&](unsigned w, std::uint32_t word, double x_first, double x_second) HUSHVEC_INLINE_LAMBDA {
                        of_part.add({group * kGroupPairs + w * kGroupBlocks + lane, {word, 0}, {x_first, x_second}});
                    });
            });
        });
    }
};

}  // namespace hushvec::cuda
