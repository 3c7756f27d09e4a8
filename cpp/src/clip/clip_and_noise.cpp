// Clipping fused with noise: rows are staged, their scales found, and one pass over the stage makes the noise and writes the result.
// Any split into blocks gives the same bits, so threads take any share.
#include <algorithm>
#include <memory>
#include <type_traits>
#include <vector>

#include "array/line_vector.hpp"
#include "array/staging.hpp"
#include "array/validate.hpp"
#include "clip/run_kernel.hpp"
#include "clip/staged_rows.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/clip.hpp"
#include "noise/float64_noise.hpp"
#include "noise/l2_laplace.hpp"

namespace hushvec {
namespace {

// Samples of a stage where a block has `block_samples`: its groups may be cut at both ends. A row of 384 needs no 16 KiB, which the C
// library takes as long to find as the noise takes.
std::size_t stage_samples(std::size_t block_samples) { return std::min(kStageSamples, block_samples + 2 * kGroupSamples); }

// Groups of 256 samples that touch samples [begin, end), at most `most` at a time: visit(group, groups, whole), where `whole` says that
// all their samples are in the range. The groups at the ends, if they are not, come alone.
template <class Visit>
void for_groups(std::size_t begin, std::size_t end, std::size_t most, Visit visit) {
    const std::size_t last = (end + kGroupSamples - 1) / kGroupSamples;
    for (std::size_t group = begin / kGroupSamples; group < last;) {
        const bool whole = group * kGroupSamples >= begin && (group + 1) * kGroupSamples <= end;
        const std::size_t groups = whole ? std::min(end / kGroupSamples - group, most) : 1;
        visit(group, groups, whole);
        group += groups;
    }
}

// Writes what the groups hold of samples [begin, end).
template <class Value>
void scatter_groups(const Value* values, std::size_t group, std::size_t groups, std::size_t begin, std::size_t end, const MatrixView& out) {
    const std::size_t first = std::max(begin, group * kGroupSamples), last = std::min(end, (group + groups) * kGroupSamples);
    scatter(values + (first - group * kGroupSamples), out, first, last - first, Rounding::nearest);
}

// The kernel on staged rows, straight into flat float32 memory where that takes whole groups.
template <class Scale>
class NoiseWork {
public:
    // The kernel asks for one line a vector: of float32 that is all of them.
    static constexpr Ahead kAhead = std::is_same_v<Scale, float> ? Ahead::nothing : Ahead::lines;

    NoiseWork(const RunKernel& kernel, const MatrixView& out, std::size_t block_samples)
        : kernel_(kernel), out_(out), flat_(out.dtype == DType::float32 && out.is_flat()),
          row_scale_(stage_samples(block_samples)), result_(stage_samples(block_samples)), open_(new_open_queue<Scale>()) {}

    void operator()(const StagedRows<Scale>& rows, std::size_t begin, std::size_t end) {
        const std::size_t columns = rows.columns();
        // By half words rows go together: one alone begins within a group of words, and leaves few pairs open.
        const bool together = columns % kGroupSamples != 0 || kernel_.half_words;
        if (together && rows.end_sample() - rows.first_sample() > columns) {
            const bool halves = columns % kHalfGroup == 0;
            return for_groups(begin, end, kStageGroups, [&](std::size_t group, std::size_t groups, bool whole) {
                const std::size_t first = group * kGroupSamples, count = groups * kGroupSamples;
                halves ? rows.expand_half_groups(first, count, row_scale_.data()) : rows.expand_scales(first, count, row_scale_.data());
                run(rows, group, groups, halves ? kEachHalfGroup : kEachElement, flat_ && whole, begin, end);
            });
        }
        const std::size_t most = flat_ ? end : kStageGroups;   // what is not written in place goes through result_
        for (std::size_t sample = begin; sample < end;) {      // one run for each stretch of a row, its cut groups apart
            const std::size_t row = sample / columns, stretch = std::min(end, (row + 1) * columns);
            std::fill_n(row_scale_.data(), kRunScales, rows.scale(row));
            for_groups(sample, stretch, most, [&](std::size_t group, std::size_t groups, bool whole) {
                run(rows, group, groups, kOneRow, flat_ && whole, begin, end);
            });
            sample = stretch;
        }
    }

    // Output is final from here on, also that of a call which stops because of a row with NaN or Inf.
    ~NoiseWork() { kernel_.settle(*open_); }

private:
    void run(const StagedRows<Scale>& rows, std::size_t group, std::size_t groups, ScaleLayout scales, bool direct, std::size_t begin,
             std::size_t end) {
        const std::size_t first = group * kGroupSamples;
        float* y = direct ? reinterpret_cast<float*>(out_.data) + first : result_.data();
        const NoiseRun<Scale> run = {group, groups, rows.at(first), row_scale_.data(), scales, y, kAhead == Ahead::nothing ? rows.bytes_to_next_block() : 0};
        kernel_(run, *open_);
        if (direct) return;
        kernel_.settle(*open_);
        scatter_groups(result_.data(), group, groups, begin, end, out_);
    }

    const RunKernel& kernel_;
    const MatrixView& out_;
    const bool flat_;
    LineVector<Scale> row_scale_;
    LineVector<float> result_;
    std::unique_ptr<OpenQueue<Scale>> open_;   // of runs that were written in place
};

// The float grade of float64 rows: y = x q + sigma Z in float64.
class Float64NoiseWork {
public:
    static constexpr Ahead kAhead = Ahead::lines;

    Float64NoiseWork(const KeyStream& stream, Law law, double sigma, const MatrixView& out, std::size_t block_samples)
        : stream_(stream), law_(law), sigma_(sigma), out_(out), noise_(stage_samples(block_samples)), row_scale_(stage_samples(block_samples)) {}

    void operator()(const StagedRows<double>& rows, std::size_t begin, std::size_t end) {
        for_groups(begin, end, kStageGroups, [&](std::size_t group, std::size_t groups, bool) {
            const std::size_t first = group * kGroupSamples, count = groups * kGroupSamples;
            const double* elements = rows.at(first);
            rows.expand_scales(first, count, row_scale_.data());
            float64_noise(stream_, law_, sigma_, group, groups, noise_.data());
            for (std::size_t i = 0; i < count; ++i) noise_[i] += elements[i] * row_scale_[i];
            scatter_groups(noise_.data(), group, groups, begin, end, out_);
        });
    }

private:
    const KeyStream& stream_;
    const Law law_;
    const double sigma_;
    const MatrixView& out_;
    std::vector<double> noise_, row_scale_;
};

// L2-Laplace draws a radius per row, so rows are the unit of work.
template <class Scale>
class L2LaplaceWork {
public:
    static constexpr Ahead kAhead = Ahead::lines;

    L2LaplaceWork(const KeyStream& stream, double scale, const MatrixView& out, std::size_t block_samples)
        : stream_(stream), scale_(scale), out_(out), at_once_(std::max<std::size_t>(1, std::min(kStageSamples, block_samples) / out.columns)),
          values_(at_once_ * out.columns), row_scale_(values_.size()), noise_(values_.size()) {}

    void operator()(const StagedRows<Scale>& rows, std::size_t begin, std::size_t end) {
        const bool wide = out_.dtype == DType::float64;
        for (std::size_t first = begin; first < end; first += values_.size()) {
            const std::size_t count = std::min(values_.size(), end - first);
            const Scale* elements = rows.at(first);
            rows.expand_scales(first, count, row_scale_.data());
            l2_laplace_rows(stream_, scale_, first / out_.columns, count / out_.columns, out_.columns, wide, noise_.data());
            for (std::size_t i = 0; i < count; ++i) values_[i] = static_cast<Scale>(double{elements[i]} * double{row_scale_[i]} + noise_[i]);
            scatter(values_.data(), out_, first, count, Rounding::nearest);
        }
    }

private:
    const KeyStream& stream_;
    const double scale_;
    const MatrixView& out_;
    const std::size_t at_once_;   // rows
    std::vector<Scale> values_, row_scale_;
    std::vector<double> noise_;
};

// What one call is asked for, checked.
struct Request {
    const KeyStream& stream;
    const MatrixView& x;
    double clip_norm;
    double sigma;
    Law law;
    ExactGrid grid;   // grid 0: float grade
    const MatrixView& out;
    Output output;

    double unit() const { return grid.grid == 0 ? 1.0 : double{grid.grid}; }

    // What the kernels multiply by.
    ExactGrid written() const { return out.dtype == DType::int8 ? in_grid_units(grid) : grid; }
};

template <class Scale, class MakeWork>
void run(const Request& r, std::size_t grain, MakeWork make_work) {
    for_clipped_rows<Scale>(r.x, r.clip_norm, r.unit(), grain, r.out, r.output, make_work);
}

template <class Scale>
void run_l2_laplace(const Request& r) {
    run<Scale>(r, r.x.columns, [&](std::size_t block_samples) { return L2LaplaceWork<Scale>(r.stream, r.sigma, r.out, block_samples); });
}

void run_float32(const Request& r) {
    const RunKernel kernel = {r.stream, r.law, r.written(), static_cast<float>(r.sigma), r.stream.half_words};
    run<float>(r, kGroupSamples, [&](std::size_t block_samples) { return NoiseWork<float>(kernel, r.out, block_samples); });
}

void run_float64(const Request& r) {
    if (r.grid.grid == 0) {
        return run<double>(r, kGroupSamples,
                           [&](std::size_t block_samples) { return Float64NoiseWork(r.stream, r.law, r.sigma, r.out, block_samples); });
    }
    const RunKernel kernel = {r.stream, r.law, r.written(), 0, r.stream.half_words};
    run<double>(r, kGroupSamples, [&](std::size_t block_samples) { return NoiseWork<double>(kernel, r.out, block_samples); });
}

ExactGrid grid_of(const KeyStream& stream, double sigma, double clip_norm, bool exact, bool integers) {
    if (!exact) return {0, 0};
    return integers ? int8_grid(sigma, clip_norm) : exact_grid(sigma, clip_norm, stream.half_words);
}

}  // namespace

float clip_and_noise(const KeyStream& stream, const MatrixView& x, double clip_norm, double sigma, Law law, bool exact,
                     const MatrixView& out, Output output) {
    check_clip_norm(clip_norm);
    check_scale(law == Law::gaussian ? "sigma" : "scale", sigma);
    const bool integers = out.dtype == DType::int8;
    if (integers) check_int8(law, sigma, exact);
    if (sigma == 0) {
        clip(x, clip_norm, out, output);
        return 0;
    }
    if (exact && law == Law::l2_laplace) throw std::invalid_argument("exact must be False for law l2_laplace, got True");
    const ExactGrid grid = grid_of(stream, sigma, clip_norm, exact, integers);
    if (x.size() == 0) return grid.grid;

    const Request request = {stream, x, clip_norm, sigma, law, grid, out, output};
    const bool wide = x.dtype == DType::float64;
    if (law == Law::l2_laplace) {
        wide ? run_l2_laplace<double>(request) : run_l2_laplace<float>(request);
    } else {
        wide ? run_float64(request) : run_float32(request);
    }
    return grid.grid;
}

}  // namespace hushvec
