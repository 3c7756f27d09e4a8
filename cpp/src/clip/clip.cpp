#include "hushvec/clip.hpp"

#include <algorithm>
#include <vector>

#include "array/staging.hpp"
#include "clip/row_blocks.hpp"
#include "clip/validate.hpp"
#include "dispatch/dispatch.hpp"

namespace hushvec {
namespace {

constexpr std::size_t kStageSamples = 4096;   // 16 KiB of float32: stays in the first-level cache

void scale_row(const float* row, std::size_t count, float scale, float* out) { active_kernels().scale_row(row, count, scale, out); }
void scale_row(const double* row, std::size_t count, double scale, double* out) {
    for (std::size_t j = 0; j < count; ++j) out[j] = row[j] * scale;
}

// Any strides and dtypes, through a stage. Rounding towards zero keeps 16-bit results inside the ball.
template <class Scale>
void clip_row_staged(const MatrixView& x, std::size_t row, Scale scale, const MatrixView& out, std::vector<Scale>& stage) {
    for (std::size_t column = 0; column < x.columns; column += kStageSamples) {
        const std::size_t count = std::min(kStageSamples, x.columns - column);
        const std::size_t sample = row * x.columns + column;
        gather(x, sample, count, stage.data());
        scale_row(stage.data(), count, scale, stage.data());
        scatter(stage.data(), out, sample, count, Rounding::toward_zero);
    }
}

template <class Scale>
void clip_rows(const MatrixView& x, double clip_norm, const MatrixView& out, Output output) {
    const bool direct = x.dtype == dtype_of<Scale> && x.rows_are_contiguous() && out.rows_are_contiguous();
    for_clipped_samples<Scale>(x, clip_norm, 1.0, x.columns, output,
                               [&](std::size_t begin, std::size_t end, const std::vector<Scale>& scales, std::size_t) {
        std::vector<Scale> stage(direct ? 0 : std::min(kStageSamples, x.columns));
        for (std::size_t row = begin / x.columns; row < end / x.columns; ++row) {
            if (direct) {
                scale_row(reinterpret_cast<const Scale*>(x.at(row, 0)), x.columns, scales[row], reinterpret_cast<Scale*>(out.at(row, 0)));
            } else {
                clip_row_staged(x, row, scales[row], out, stage);
            }
        }
    });
}

}  // namespace

void clip(const MatrixView& x, double clip_norm, const MatrixView& out, Output output) {
    check_clip_norm(clip_norm);
    if (x.size() == 0) return;   // any number of rows, where they have no elements
    if (x.dtype == DType::float64) {
        clip_rows<double>(x, clip_norm, out, output);
    } else {
        clip_rows<float>(x, clip_norm, out, output);
    }
}

}  // namespace hushvec
