#include "hushvec/clip.hpp"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "array/staging.hpp"
#include "array/validate.hpp"
#include "clip/staged_rows.hpp"
#include "dispatch/dispatch.hpp"

namespace hushvec {
namespace {

void scale_row(const float* row, std::size_t count, float scale, float* out) { active_kernels().scale_row(row, count, scale, out); }
void scale_row(const double* row, std::size_t count, double scale, double* out) {
    for (std::size_t j = 0; j < count; ++j) out[j] = row[j] * scale;
}

// Writes clipped rows. Rounding towards zero keeps 16-bit results inside the ball.
template <class Scale>
class ClipWork {
public:
    static constexpr Ahead kAhead = std::is_same_v<Scale, float> ? Ahead::pages : Ahead::lines;

    explicit ClipWork(const MatrixView& out)
        : out_(out), direct_(out.dtype == dtype_of<Scale> && out.rows_are_contiguous()), scaled_(direct_ ? 0 : kStageSamples) {}

    void operator()(const StagedRows<Scale>& rows, std::size_t begin, std::size_t end) {
        for (std::size_t sample = begin; sample < end;) {
            const std::size_t row = sample / rows.columns(), column = sample % rows.columns();
            std::size_t count = std::min(rows.columns() - column, end - sample);
            if (direct_) {
                scale_row(rows.at(sample), count, rows.scale(row), reinterpret_cast<Scale*>(out_.at(row, column)));
            } else {
                count = std::min(count, kStageSamples);
                scale_row(rows.at(sample), count, rows.scale(row), scaled_.data());
                scatter(scaled_.data(), out_, sample, count, Rounding::toward_zero);
            }
            sample += count;
        }
    }

private:
    const MatrixView& out_;
    const bool direct_;
    std::vector<Scale> scaled_;
};

template <class Scale>
void clip_rows(const MatrixView& x, double clip_norm, const MatrixView& out, Output output) {
    for_clipped_rows<Scale>(x, clip_norm, 1.0, 1, out, output, [&](std::size_t) { return ClipWork<Scale>(out); });
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
