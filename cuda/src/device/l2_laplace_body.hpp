// L2-Laplace rows (cpp/src/noise/l2_laplace.hpp) from standard normals in memory: the factor of every row, then the rows.
//
// The normals lie in the workspace because their norm must be known before the first of them is used; x may be out.
#pragma once

#include "device/row_norm.hpp"
#include "device/source.hpp"
#include "device/stream_body.hpp"
#include "device/team.hpp"
#include "device/thread_lane.hpp"
#include "noise/gamma_variate.hpp"
#include "rng/chacha_lanes.hpp"

namespace hushvec::cuda {

// factors[row] = radius / |normals of the row|. A warp a row for the norms, then a thread a row for the radii.
template <class Value>
struct L2FactorsBody {
    CallStream source;
    const Value* normals;
    std::size_t rows;
    std::size_t columns;
    double scale;
    double* factors;

    template <class Team>
    HUSHVEC_INLINE void run(std::size_t block, const Team& team) const {
        const std::size_t first = block * kStreamWarps;
        const std::uint32_t items = items_of_block(block, rows);
        team.sums(
            items,
            [&](std::uint32_t i, unsigned t) HUSHVEC_INLINE_LAMBDA {
                const Value* const row = normals + (first + i) * columns;
                return accumulator(columns, t, [row](std::size_t j) { return row[j]; });
            },
            [&](std::uint32_t i, double sum) HUSHVEC_INLINE_LAMBDA { factors[first + i] = sum; });
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            if (thread < items) factors[first + thread] = factor(first + thread, factors[first + thread]);
        });
    }

private:
    HUSHVEC_COLD double factor(std::size_t row, double sum_of_squares) const {
        const KeyStream stream = stream_of(source);
        const auto block_at = [&stream](std::uint64_t index) {
            Block words;
            ChaChaLanes<Thread>(stream, domain::kRows).blocks(index, words.data(), 1);
            return words;
        };
        const double radius = scale * gamma_variate(row, static_cast<double>(columns), block_at);
        const double norm = std::sqrt(sum_of_squares);
        return norm > 0 ? radius / norm : 0.0;
    }
};

// out = x q + factor * normal in float64, then rounded; without x the noise alone. A scale of NaN, of a row with NaN or Inf, counts as zeros.
template <class Stored>
struct L2RowsBody {
    const Stored* x;   // null: noise alone
    Stored* out;
    std::size_t count;
    std::size_t columns;
    const Wide<Stored>* scales;
    const Wide<Stored>* normals;
    const double* factors;

    template <class Team>
    HUSHVEC_INLINE void run(std::size_t block, std::size_t blocks, const Team& team) const {
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            for (std::size_t i = block * kStreamThreads + thread; i < count; i += blocks * kStreamThreads) {
                const std::size_t row = i / columns;
                const double noise = factors[row] * double{normals[i]};
                const double sum = x == nullptr || std::isnan(scales[row]) ? noise : double{widened(x[i])} * double{scales[row]} + noise;
                out[i] = narrowed<Stored>(static_cast<Wide<Stored>>(sum));
            }
        });
    }
};

}  // namespace hushvec::cuda
