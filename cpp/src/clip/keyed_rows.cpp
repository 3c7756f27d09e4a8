// Rows with a key stream each. A row is worked off alone, as row 0 of a call of one row, so nothing around it can change its bits.
#include "hushvec/keyed_rows.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "array/staging.hpp"
#include "clip/row_scale.hpp"
#include "clip/run_kernel.hpp"
#include "clip/validate.hpp"
#include "parallel/threads.hpp"
#include "rng/blake2b.hpp"

namespace hushvec {
namespace {

constexpr std::size_t kStageGroups = 16;      // 16 KiB of float32: stays in the first-level cache
constexpr std::size_t kVector = 16;           // elements of a NoiseRun scale vector
constexpr std::size_t kBytesAhead = 4096;     // one page, where hardware prefetchers stop

// Rows whose keys are made together, one a lane.
constexpr std::size_t kRowsAtOnce = 16;

// Streams of rows [first, last) of x, at most kRowsAtOnce. Wiped when they go.
class RowStreams {
public:
    RowStreams(const Blake2bKey& key, const std::uint8_t* places, const MatrixView& x, std::size_t first, std::size_t last)
        : first_(first) {
        active_kernels().row_keys({key.state, places + first * kRowPlaceBytes, x.at(first, 0), x.columns * item_size(x.dtype),
                                   last - first, keys_});
    }
    ~RowStreams() { explicit_bzero(keys_, sizeof keys_); }
    RowStreams(const RowStreams&) = delete;
    RowStreams& operator=(const RowStreams&) = delete;

    KeyStream of(std::size_t row) const {
        KeyStream stream;
        std::copy_n(keys_[row - first_], 8, stream.key);
        return stream;
    }

private:
    std::size_t first_;
    RowKey keys_[kRowsAtOnce];
};

// Calls work(begin, end) on at most kRowsAtOnce rows at a time.
template <class Work>
void for_runs_of_rows(std::size_t begin, std::size_t end, Work work) {
    for (; begin < end; begin += kRowsAtOnce) work(begin, std::min(begin + kRowsAtOnce, end));
}

MatrixView row_of(const MatrixView& matrix, std::size_t row) {
    MatrixView one = matrix;
    one.data = matrix.at(row, 0);
    one.rows = 1;
    return one;
}

// Buffers of one thread, and rows through them.
template <class Element>
class RowWorker {
public:
    RowWorker(const MatrixView& x, const MatrixView& out)
        : x_(x), out_(out), whole_groups_(x.dtype == DType::float32 ? x.columns / kGroupSamples : 0),
          stage_groups_(std::min(kStageGroups, (x.columns + kGroupSamples - 1) / kGroupSamples)),
          elements_(stage_groups_ * kGroupSamples), result_(stage_groups_ * kGroupSamples) {}

    void run(std::size_t row, Element scale, const RunKernel& kernel) {
        Element scales[kVector];
        std::fill_n(scales, kVector, scale);
        if constexpr (std::is_same_v<Element, float>) {
            if (whole_groups_ > 0) {
                kernel(NoiseRun<float>{0, whole_groups_, reinterpret_cast<const float*>(x_.at(row, 0)), scales, 0,
                                       reinterpret_cast<float*>(out_.at(row, 0)), kBytesAhead, kBytesAhead});
            }
        }
        const std::size_t groups = (x_.columns + kGroupSamples - 1) / kGroupSamples;
        for (std::size_t group = whole_groups_; group < groups; group += stage_groups_) {
            const std::size_t at_once = std::min(stage_groups_, groups - group);
            const std::size_t first = group * kGroupSamples;
            const std::size_t count = std::min(at_once * kGroupSamples, x_.columns - first);
            gather(x_, row * x_.columns + first, count, elements_.data());
            std::fill_n(elements_.begin() + static_cast<std::ptrdiff_t>(count), at_once * kGroupSamples - count, Element{0});
            kernel(NoiseRun<Element>{group, at_once, elements_.data(), scales, 0, result_.data(), 0, 0});
            scatter(result_.data(), out_, row * x_.columns + first, count, Rounding::nearest);
        }
    }

private:
    const MatrixView& x_;
    const MatrixView& out_;
    const std::size_t whole_groups_;   // that need no stage
    const std::size_t stage_groups_;
    std::vector<Element> elements_;
    std::vector<float> result_;
};

template <class Element>
void noise_rows(const RowKeySource& source, const MatrixView& x, double clip_norm, Law law, ExactGrid grid, const MatrixView& out) {
    RowScales<Element> scales(x, clip_norm, double{grid.grid});
    const Blake2bKey key(source.key);
    parallel_for(x.rows, x.columns, [&](std::size_t begin, std::size_t end) {
        RowWorker<Element> worker(x, out);
        for_runs_of_rows(begin, end, [&](std::size_t first, std::size_t last) {
            if (!scales.find(first, last)) return;
            const RowStreams streams(key, source.places, x, first, last);
            for (std::size_t row = first; row < last; ++row) {
                worker.run(row, scales.values()[row], RunKernel{streams.of(row), law, grid, 0});
            }
        });
    });
    scales.require_finite();
}

template <class Element>
void require_finite_rows(const MatrixView& x) {
    RowScales<Element> scales(x, 1.0, 1.0);
    parallel_for(x.rows, x.columns, [&](std::size_t begin, std::size_t end) { scales.find(begin, end); });
    scales.require_finite();
}

void check_layout(const MatrixView& x, const MatrixView& out) {
    if (!x.is_flat() || !out.is_flat()) throw std::invalid_argument("x and out must be contiguous, got strided rows");
    if (x.data == out.data) throw std::invalid_argument("out must not be x itself");
}

}  // namespace

void clip_and_noise_keyed(const RowKeySource& source, const MatrixView& x, double clip_norm, double sigma, Law law, const MatrixView& out) {
    check_clip_norm(clip_norm);
    check_scale(law == Law::gaussian ? "sigma" : "scale", sigma);
    if (law == Law::l2_laplace) throw std::invalid_argument("law must have an exact form, got l2_laplace");
    const ExactGrid grid = exact_grid(sigma, clip_norm);
    if (x.size() == 0) return;
    check_layout(x, out);
    if (x.dtype == DType::float64) {
        noise_rows<double>(source, x, clip_norm, law, grid, out);
    } else {
        noise_rows<float>(source, x, clip_norm, law, grid, out);
    }
}

void privunit_keyed(const RowKeySource& source, const MatrixView& x, PrivUnitLaw law, double sigma, const MatrixView& out) {
    privunit_epsilon(law);   // its checks
    privunit_grid(sigma);
    if (x.size() == 0) return;
    check_layout(x, out);
    x.dtype == DType::float64 ? require_finite_rows<double>(x) : require_finite_rows<float>(x);
    const Blake2bKey key(source.key);
    parallel_for(x.rows, x.columns, [&](std::size_t begin, std::size_t end) {
        for_runs_of_rows(begin, end, [&](std::size_t first, std::size_t last) {
            const RowStreams streams(key, source.places, x, first, last);
            for (std::size_t row = first; row < last; ++row) {
                privunit(streams.of(row), row_of(x, row), law, sigma, row_of(out, row), Output::fresh);
            }
        });
    });
}

}  // namespace hushvec
