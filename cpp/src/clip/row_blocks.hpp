// Drives work on clipped rows: finds the row scales, then calls the work on runs of samples.
//
// An output that others can see must stay untouched when a row turns out to hold NaN or Inf, so all scales come first and
// x is read twice. A fresh output is thrown away with the error, so rows go through in blocks that stay in the second-level
// cache between the two readings, and memory is read once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "clip/row_scale.hpp"
#include "hushvec/clip.hpp"
#include "parallel/threads.hpp"

namespace hushvec {

// 128 KiB of float32: with its output and the block that is fetched ahead it fits a second-level cache of 512 KiB.
inline constexpr std::size_t kBlockSamples = std::size_t{1} << 15;
// Fewer blocks than this a thread, and the shares become uneven; the array is then small enough for the caches anyway.
inline constexpr std::size_t kBlocksPerThread = 4;

// Calls work(first_sample, last_sample, scales, fetch_distance) on ranges that cover all samples: their ends are multiples of
// `grain` samples, or the end of the array. fetch_distance is how many elements ahead of its use x is worth fetching,
// 0 where that is the work's own choice. Throws NonFiniteRow; work must not throw.
template <class Scale, class Work>
void for_clipped_samples(const MatrixView& x, double clip_norm, double grid, std::size_t grain, Output output, Work work) {
    RowScales<Scale> scales(x, clip_norm, grid);
    const std::size_t unit = std::lcm(x.columns, grain);   // the shortest run of whole rows and whole grains
    const std::size_t rows_at_once = unit / x.columns * std::max<std::size_t>(1, kBlockSamples / unit);
    const std::size_t blocks = (x.rows + rows_at_once - 1) / rows_at_once;

    if (output == Output::fresh && blocks >= kBlocksPerThread * num_threads()) {
        parallel_for(blocks, rows_at_once * x.columns, [&](std::size_t begin, std::size_t end) {
            for (std::size_t block = begin; block < end; ++block) {
                const std::size_t first = block * rows_at_once;
                const std::size_t last = std::min(first + rows_at_once, x.rows);
                if (!scales.find(first, last)) return;
                work(first * x.columns, last * x.columns, scales.values(), rows_at_once * x.columns);
            }
        });
        return scales.require_finite();
    }

    parallel_for(x.rows, x.columns, [&](std::size_t begin, std::size_t end) { scales.find(begin, end); });
    scales.require_finite();
    parallel_for((x.size() + grain - 1) / grain, grain, [&](std::size_t begin, std::size_t end) {
        work(begin * grain, std::min(end * grain, x.size()), scales.values(), std::size_t{0});
    });
}

}  // namespace hushvec
