// Rows with a key stream each. A row is worked off alone, as row 0 of a call of one row, so nothing around it can change its bits.
//
// Rows are copied out of the caller's memory first, some at a time: key, norm and values are those of one reading. Other data can then
// never get a stream that was keyed by these, however often another thread writes to the row.
#include "hushvec/keyed_rows.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "array/line_vector.hpp"
#include "array/staging.hpp"
#include "array/validate.hpp"
#include "clip/row_scale.hpp"
#include "clip/run_kernel.hpp"
#include "hushvec/key_slot.hpp"
#include "hushvec/stack_frames.hpp"
#include "hushvec/wipe.hpp"
#include "parallel/threads.hpp"
#include "rng/aes_stream.hpp"
#include "rng/blake2b.hpp"

namespace hushvec {
namespace {

// Rows whose keys are made together, one a lane; fewer where they are so long that 16 would be a copy of more than this.
constexpr std::size_t kRowsAtOnce = 16;
constexpr std::size_t kStageBytes = std::size_t{1} << 24;

// Rows as they lie in memory, some at a time in a copy of one thread's own.
class RowStage {
public:
    explicit RowStage(const MatrixView& x)
        : x_(x), row_bytes_(x.columns * item_size(x.dtype)),
          at_once_(std::clamp<std::size_t>(kStageBytes / row_bytes_, 1, std::min(kRowsAtOnce, x.rows))), memory_(at_once_ * row_bytes_) {}

    std::size_t at_once() const { return at_once_; }

    // Rows [first, last), at most at_once() of them: row 0 of the result is `first`.
    MatrixView load(std::size_t first, std::size_t last) {
        std::memcpy(memory_.data(), x_.at(first, 0), (last - first) * row_bytes_);
        std::atomic_signal_fence(std::memory_order_seq_cst);   // the compiler may take no later use from x
        MatrixView rows = x_;
        rows.data = memory_.data();
        rows.rows = last - first;
        return rows;
    }

private:
    const MatrixView& x_;
    const std::size_t row_bytes_;
    const std::size_t at_once_;
    LineVector<std::byte> memory_;
};

// Streams of staged rows. Round keys are in locked memory, keys are wiped when it goes, and so is the stack of what drew from them.
class RowStreams {
public:
    RowStreams(const Blake2bKey& key, const RowKeySource& source) : key_(key), source_(source) {}
    ~RowStreams() {
        wipe(keys_, sizeof keys_);
        wipe_stack_below();
    }
    RowStreams(const RowStreams&) = delete;
    RowStreams& operator=(const RowStreams&) = delete;

    // From here on `of` gives the streams of these rows, the first of which is row `first` of the call.
    void enter(const MatrixView& rows, std::size_t first) {
        active_kernels().row_keys({key_.state, source_.places + first * kRowPlaceBytes, rows.data, rows.columns * item_size(rows.dtype), rows.rows, keys_});
        if (source_.cipher != Cipher::aes256) return;
        for (std::size_t row = 0; row < rows.rows; ++row) round_keys_[row] = &slots_[row].taken();
        derive_round_keys(keys_, rows.rows, round_keys_);
    }

    KeyStream of(std::size_t row) const {
        KeyStream stream;
        std::copy_n(keys_[row], 8, stream.key);
        stream.cipher = source_.cipher;
        stream.half_words = source_.half_words;
        stream.round_keys = round_keys_[row];
        return stream;
    }

private:
    const Blake2bKey& key_;
    const RowKeySource& source_;
    RowKey keys_[kRowsAtOnce];
    RoundKeySlot slots_[kRowsAtOnce];
    AesRoundKeys* round_keys_[kRowsAtOnce] = {};
};

// Calls work(staged rows, first) on all rows of x, some at a time: `first` is which row of x the first of them is. False ends a
// range; otherwise work must not throw.
template <class MakeWork>
void for_staged_rows(const MatrixView& x, MakeWork make_work) {
    parallel_ranges(x.rows, x.columns, [&] {
        return [stage = RowStage(x), work = make_work()](std::size_t begin, std::size_t end) mutable {
            for (std::size_t first = begin; first < end; first += stage.at_once()) {
                if (!work(stage.load(first, std::min(first + stage.at_once(), end)), first)) return;
            }
        };
    });
}

MatrixView row_of(const MatrixView& matrix, std::size_t row) {
    MatrixView one = matrix;
    one.data = matrix.at(row, 0);
    one.rows = 1;
    return one;
}

// Buffers of one thread, and staged rows through them.
template <class Element>
class RowWorker {
public:
    RowWorker(const MatrixView& x, const MatrixView& out)
        : out_(out), whole_groups_(x.dtype == DType::float32 ? x.columns / kGroupSamples : 0),
          stage_groups_(std::min(kStageGroups, (x.columns + kGroupSamples - 1) / kGroupSamples)),
          elements_(stage_groups_ * kGroupSamples), result_(stage_groups_ * kGroupSamples) {}

    // Row `row` of `rows` becomes row `target` of the output.
    void run(const MatrixView& rows, std::size_t row, std::size_t target, Element scale, const RunKernel& kernel) {
        Element scales[kRunScales];
        std::fill_n(scales, kRunScales, scale);
        if constexpr (std::is_same_v<Element, float>) {
            if (whole_groups_ > 0) {
                kernel.run_and_settle(NoiseRun<float>{0, whole_groups_, reinterpret_cast<const float*>(rows.at(row, 0)), scales, kOneRow,
                                                      reinterpret_cast<float*>(out_.at(target, 0)), 0},
                                      *open_);
            }
        }
        const std::size_t groups = (rows.columns + kGroupSamples - 1) / kGroupSamples;
        for (std::size_t group = whole_groups_; group < groups; group += stage_groups_) {
            const std::size_t at_once = std::min(stage_groups_, groups - group);
            const std::size_t first = group * kGroupSamples;
            const std::size_t count = std::min(at_once * kGroupSamples, rows.columns - first);
            gather(rows, row * rows.columns + first, count, elements_.data());
            std::fill_n(elements_.begin() + static_cast<std::ptrdiff_t>(count), at_once * kGroupSamples - count, Element{0});
            kernel.run_and_settle(NoiseRun<Element>{group, at_once, elements_.data(), scales, kOneRow, result_.data(), 0}, *open_);
            scatter(result_.data(), out_, target * rows.columns + first, count, Rounding::nearest);
        }
    }

private:
    const MatrixView& out_;
    const std::size_t whole_groups_;   // that can be read and written where they lie
    const std::size_t stage_groups_;
    std::vector<Element> elements_;
    std::vector<float> result_;
    std::unique_ptr<OpenQueue<Element>> open_ = new_open_queue<Element>();
};

// q of each staged row. Returns how many come before the first with NaN or Inf.
template <class Element>
std::size_t scales_of(const MatrixView& rows, double clip_norm, double grid, std::vector<Element>& widened, Element* scales) {
    const Element* elements = reinterpret_cast<const Element*>(rows.data);
    if (rows.dtype != dtype_of<Element>) {
        widened.resize(rows.size());
        gather(rows, 0, rows.size(), widened.data());
        elements = widened.data();
    }
    return row_scales(elements, rows.rows, rows.columns, clip_norm, grid, scales);
}

template <class Element>
void noise_rows(const RowKeySource& source, const MatrixView& x, double clip_norm, Law law, ExactGrid grid, const MatrixView& out) {
    FirstBadRow bad(x.rows);
    const Blake2bKey key(source.key);
    for_staged_rows(x, [&] {
        return [&, worker = RowWorker<Element>(x, out), widened = std::vector<Element>(),
                streams = std::make_unique<RowStreams>(key, source)](const MatrixView& rows, std::size_t first) mutable {
            Element scales[kRowsAtOnce];
            const std::size_t good = scales_of(rows, clip_norm, double{grid.grid}, widened, scales);
            if (good < rows.rows) bad.note(first + good);
            if (good < rows.rows) return false;
            streams->enter(rows, first);
            for (std::size_t row = 0; row < rows.rows; ++row) {
                worker.run(rows, row, first + row, scales[row], RunKernel{streams->of(row), law, grid, 0, source.half_words});
            }
            return true;
        };
    });
    bad.require_none(x);
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
    const ExactGrid grid = exact_grid(sigma, clip_norm, source.half_words);
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
    FirstBadRow bad(x.rows);
    const Blake2bKey key(source.key);
    for_staged_rows(x, [&] {
        return [&, streams = std::make_unique<RowStreams>(key, source)](const MatrixView& rows, std::size_t first) {
            streams->enter(rows, first);
            for (std::size_t row = 0; row < rows.rows; ++row) {
                try {
                    privunit(streams->of(row), row_of(rows, row), law, sigma, row_of(out, first + row), Output::fresh);
                } catch (const NonFiniteRow&) {
                    bad.note(first + row);
                    return false;
                }
            }
            return true;
        };
    });
    bad.require_none(x);
}

}  // namespace hushvec
