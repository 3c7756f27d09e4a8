#include "clip/norm_estimate.hpp"

#include <cmath>
#include <cstdint>

#include "clip/part_rows.hpp"
#include "dispatch/dispatch.hpp"
#include "lanes/prefetch.hpp"

namespace hushvec {
namespace {

constexpr std::size_t kSamplesOfAStretch = kStretch / kSampleElements;
// A sample is a jump to another page: ask for it early, and still earlier for its first line, so that the page's place is known when
// the others are asked for. [64, 4,194,304] on pages of 4 KiB: 0.0080 s without either, 0.0050 s without the second, 0.0044 s with both.
constexpr std::size_t kStretchesAhead = 4;
constexpr std::size_t kPagesAhead = 16;

// Multiples of the golden ratio: spread evenly, in step with no power of two.
std::size_t sample_of_stretch(std::size_t stretch) {
    const std::uint32_t spread = static_cast<std::uint32_t>(stretch) * 2654435761u;
    return stretch * kStretch + (spread >> 26) * kSampleElements;
}
static_assert(kSamplesOfAStretch == 64);   // what the six top bits of `spread` choose from

// What has been seen of a row. Neighbouring stretches differ little where a row's scale drifts, so the differences of successive
// samples measure the sampling error, and not the drift.
struct Seen {
    double exact = 0;         // squares of elements that were all read
    double sampled = 0;       // sum of the samples' sums of squares
    double differences = 0;   // sum of the squares of the differences of successive ones
    double last = 0;
    std::size_t samples = 0;

    void add_sample(double squares) {
        if (samples > 0) differences += (squares - last) * (squares - last);
        sampled += squares;
        last = squares;
        ++samples;
    }
};

void read_whole(const MatrixView& part, std::size_t row, std::size_t first, PartReader<float>& reader, Seen& seen) {
    for (std::size_t column = first; column < part.columns; column += kStretch) {
        const std::size_t count = std::min(kStretch, part.columns - column);
        seen.exact += active_kernels().sum_of_squares(reader.run(part, row, column, count), count);
    }
}

void read_sample(const MatrixView& part, std::size_t row, PartReader<float>& reader, Seen& seen) {
    const std::size_t stretches = part.columns / kStretch;
    const bool direct = part.dtype == DType::float32 && part.rows_are_contiguous();
    for (std::size_t stretch = 0; stretch < stretches; ++stretch) {
        if (direct && stretch + kPagesAhead < stretches) prefetch_to_read(part.at(row, sample_of_stretch(stretch + kPagesAhead)), 0);
        if (direct && stretch + kStretchesAhead < stretches) {
            const std::byte* next = part.at(row, sample_of_stretch(stretch + kStretchesAhead));
            for (std::size_t byte = 0; byte < kSampleElements * sizeof(float); byte += kCacheLine) prefetch_to_read(next, byte);
        }
        const float* elements = reader.run(part, row, sample_of_stretch(stretch), kSampleElements);
        seen.add_sample(active_kernels().sum_of_squares(elements, kSampleElements));
    }
    read_whole(part, row, stretches * kStretch, reader, seen);
}

}  // namespace

NormEstimate estimate_norm(const std::vector<MatrixView>& parts, std::size_t row) {
    PartReader<float> reader(1);
    Seen seen;
    for (const MatrixView& part : parts) {
        if (part.columns < kSampledColumns) {
            read_whole(part, row, 0, reader, seen);
        } else {
            read_sample(part, row, reader, seen);
        }
    }
    const double share = static_cast<double>(kSamplesOfAStretch);
    const double squares = seen.exact + share * seen.sampled;
    const double samples = static_cast<double>(seen.samples);
    const double variance = seen.samples > 1 ? share * share * seen.differences / 2 * (samples / (samples - 1)) : 0.0;
    const double with_margin = squares + kStandardErrors * std::sqrt(variance);
    const double most = (1 + kLargestLoss) * (1 + kLargestLoss);
    return {std::sqrt(with_margin), std::isfinite(with_margin) && with_margin <= most * squares};
}

}  // namespace hushvec
