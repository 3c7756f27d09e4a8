// Moves runs of samples between a strided array of any dtype and a small contiguous buffer of float32 or float64.
//
// Samples are counted over all rows (docs/format.md section 2), so a run may start and end inside rows.
#pragma once

#include <cstddef>

#include "hushvec/array.hpp"
#include "hushvec/keystream.hpp"

namespace hushvec {

// A stage: 16 KiB of float32 stay in the first-level cache.
inline constexpr std::size_t kStageGroups = 16;
inline constexpr std::size_t kStageSamples = kStageGroups * kGroupSamples;

enum class Rounding {   // of float16 and bfloat16 on the way out
    nearest,
    toward_zero,
};

// Widening is exact. `buffer` is float for float32, float16 and bfloat16 arrays, double for float64 ones.
// Each element is read once, and what follows sees the buffer: another thread that writes to the array cannot come between two uses.
void gather(const MatrixView& array, std::size_t first_sample, std::size_t count, float* buffer);
void gather(const MatrixView& array, std::size_t first_sample, std::size_t count, double* buffer);

// 16-bit results saturate at the largest finite value. For int8 the buffer holds whole numbers, which saturate at +-127.
void scatter(const float* buffer, const MatrixView& array, std::size_t first_sample, std::size_t count, Rounding rounding);
void scatter(const double* buffer, const MatrixView& array, std::size_t first_sample, std::size_t count, Rounding rounding);

}  // namespace hushvec
