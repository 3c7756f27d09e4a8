// A guess of a row's norm from a sample of its elements, with a margin that makes it nearly always too large.
#pragma once

#include <cstddef>
#include <vector>

#include "hushvec/array.hpp"

namespace hushvec {

inline constexpr std::size_t kSampleElements = 128;           // read of every stretch of 8192
inline constexpr std::size_t kSampledColumns = std::size_t{1} << 16;   // shorter parts are read whole
inline constexpr double kStandardErrors = 3;
inline constexpr double kLargestLoss = 0.03;   // of a row's length: a wider margin is no guess, and a shorter result is corrected

// Of a row, in float64 by docs/format.md section 7. Parts have the dtypes float32, float16 or bfloat16.
struct NormEstimate {
    double norm;     // with the margin
    bool usable;     // finite, and the margin is at most kLargestLoss
};
NormEstimate estimate_norm(const std::vector<MatrixView>& parts, std::size_t row);

}  // namespace hushvec
