#include "hushvec/clip.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "array/staging.hpp"
#include "clip/row_scale.hpp"
#include "clip/validate.hpp"
#include "dispatch/dispatch.hpp"
#include "parallel/threads.hpp"

namespace hushvec {
namespace {

constexpr std::size_t kStageSamples = 4096;   // 16 KiB of float32: stays in the first-level cache

void scale_row_in_place(float* row, std::size_t count, float scale) { active_kernels().scale_row(row, count, scale, row); }
void scale_row_in_place(double* row, std::size_t count, double scale) {
    for (std::size_t j = 0; j < count; ++j) row[j] *= scale;
}

// Rounding towards zero keeps 16-bit results inside the ball.
template <class Scale>
void clip_rows(const MatrixView& x, double clip_norm, const MatrixView& out) {
    const std::vector<Scale> scales = row_scales<Scale>(x, clip_norm, 1.0);
    parallel_for(x.rows, x.columns, [&](std::size_t begin, std::size_t end) {
        std::vector<Scale> stage(std::min(kStageSamples, x.columns));
        for (std::size_t row = begin; row < end; ++row) {
            for (std::size_t column = 0; column < x.columns; column += kStageSamples) {
                const std::size_t count = std::min(kStageSamples, x.columns - column);
                const std::size_t sample = row * x.columns + column;
                gather(x, sample, count, stage.data());
                scale_row_in_place(stage.data(), count, scales[row]);
                scatter(stage.data(), out, sample, count, Rounding::toward_zero);
            }
        }
    });
}

}  // namespace

void clip(const MatrixView& x, double clip_norm, const MatrixView& out) {
    check_clip_norm(clip_norm);
    if (x.size() == 0) return;   // any number of rows, where they have no elements
    if (x.dtype == DType::float64) {
        clip_rows<double>(x, clip_norm, out);
    } else {
        clip_rows<float>(x, clip_norm, out);
    }
}

}  // namespace hushvec
