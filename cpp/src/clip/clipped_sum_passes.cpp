#include "clip/clipped_sum_passes.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "clip/clipped_sum_kernels.hpp"
#include "clip/part_rows.hpp"
#include "clip/row_norms.hpp"
#include "clip/row_scale_arithmetic.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/clipped_sum.hpp"
#include "os/mutex.hpp"
#include "parallel/threads.hpp"

namespace hushvec {
namespace {

// Adds rows to integers that hold the sum of at most kRowsInOneSum of them; one serves one thread.
class RowAdder {
public:
    RowAdder(const std::vector<MatrixView>& parts, double unit) : parts_(parts), unit_(unit), floats_(kRowsInOneSum), doubles_(1) {}

    // Rows first .. first + count - 1 of `from`, their elements in `run`. squares: those of rows whose scales are guesses, or null.
    // As many rows behind them are fetched if fetch_next.
    void add(const Columns& run, const ScaledRows& from, std::size_t first, std::size_t count, std::uint32_t* integers, double* squares,
             bool fetch_next = false) {
        const MatrixView& part = parts_[run.part];
        if (part.dtype == DType::float64) {
            for (std::size_t i = first; i < first + count; ++i) add_float64_row(run, from.rows[i], from.scale(run.part, i), integers);
            return;
        }
        const float* rows[kRowsInOneSum];
        float q[kRowsInOneSum];
        for (std::size_t i = 0; i < count; ++i) {
            rows[i] = floats_.run(part, from.rows[first + i], run.first, run.count, i);
            q[i] = in_grid_units(static_cast<double>(round_toward_zero(from.scale(run.part, first + i))), unit_, float{});
        }
        active_kernels().add_rows({rows, q, count, run.count, integers, squares, fetch_next ? bytes_to_next(part, count) : 0});
    }

private:
    void add_float64_row(const Columns& run, std::size_t row, double scale, std::uint32_t* integers) {
        const double* elements = doubles_.run(parts_[run.part], row, run.first, run.count);
        const double q = in_grid_units(scale, unit_, double{});
        for (std::size_t j = 0; j < run.count; ++j) integers[j] += static_cast<std::uint32_t>(static_cast<std::int32_t>(elements[j] * q));
    }

    const std::vector<MatrixView>& parts_;
    double unit_;
    PartReader<float> floats_;
    PartReader<double> doubles_;
};

constexpr std::size_t kRun = kStretch;   // of guessed rows, by docs/format.md: squares of a run are added in float32
constexpr std::size_t kShortestRun = 512;   // for a thread of its own

// A run of columns of the sums, for one thread.
class RunOfSums {
public:
    RunOfSums(const std::vector<MatrixView>& parts, const Sums& sums) : adder_(parts, sums.unit), sums_(sums.units) {}

    void put(const Columns& run, const ScaledRows& rows, Put put, double* squares) {
        const std::size_t count = padded(run.count);
        for (std::size_t first = 0; first < rows.size(); first += kRowsInOneSum) {
            std::fill_n(integers_, count, 0u);
            adder_.add(run, rows, first, std::min(kRowsInOneSum, rows.size() - first), integers_, squares == nullptr ? nullptr : squares + first);
            sums_.put(run.part, run.first, integers_, count, put == Put::store && first > 0 ? Put::add : put);
        }
    }

private:
    alignas(64) std::uint32_t integers_[kRun];
    RowAdder adder_;
    UnitSums& sums_;
};

// Calls work(sums, item, run) for all runs of columns; `rows` is how many are read in each.
template <class Work>
void for_runs(const std::vector<MatrixView>& parts, const std::vector<Columns>& runs, std::size_t rows, const Sums& sums, Work work) {
    parallel_ranges(runs.size(), runs.empty() ? 0 : runs[0].count * rows / kElementsOfASample, [&] {
        return [&, of_run = RunOfSums(parts, sums)](std::size_t begin, std::size_t end) mutable {
            for (std::size_t item = begin; item < end; ++item) work(of_run, item, runs[item]);
        };
    });
}

std::size_t columns_of(const std::vector<MatrixView>& parts) {
    return std::accumulate(parts.begin(), parts.end(), std::size_t{0}, [](std::size_t sum, const MatrixView& part) { return sum + part.columns; });
}

// Runs in which every thread has its share.
std::vector<Columns> shared_runs(const std::vector<MatrixView>& parts) {
    return cut_columns(parts, std::clamp(padded(columns_of(parts) / num_threads() + 1), kShortestRun, kRun));
}

}  // namespace

void put_rows(const std::vector<MatrixView>& parts, const ScaledRows& rows, const Sums& sums, Put put) {
    for_runs(parts, shared_runs(parts), rows.size(), sums,
             [&](RunOfSums& of_run, std::size_t, const Columns& run) { of_run.put(run, rows, put, nullptr); });
}

std::vector<double> put_guessed_rows(const std::vector<MatrixView>& parts, const ScaledRows& rows, const Sums& sums, Put put) {
    const std::vector<Columns> runs = cut_columns(parts, kRun);
    std::vector<double> partial(runs.size() * rows.size());
    for_runs(parts, runs, rows.size(), sums, [&](RunOfSums& of_run, std::size_t item, const Columns& run) {
        of_run.put(run, rows, put, partial.data() + item * rows.size());
    });
    std::vector<double> squares(rows.size());
    for (std::size_t item = 0; item < runs.size(); ++item) {
        for (std::size_t i = 0; i < rows.size(); ++i) squares[i] += partial[item * rows.size() + i];
    }
    return squares;
}

void replace_guessed_rows(const std::vector<MatrixView>& parts, const ScaledRows& guessed, const ScaledRows& right, const Sums& sums) {
    for_runs(parts, shared_runs(parts), guessed.size() + right.size(), sums, [&](RunOfSums& of_run, std::size_t, const Columns& run) {
        std::vector<double> unused(guessed.size());
        of_run.put(run, guessed, Put::subtract, unused.data());
        of_run.put(run, right, Put::add, nullptr);
    });
}

// ---- short rows ----

namespace {

constexpr std::size_t kShortColumns = std::size_t{1} << 17;
constexpr std::size_t kBlockElements = std::size_t{1} << 13;    // 32 KiB of rows,
constexpr std::size_t kFewestAtOnce = 8;                        // or as many as are read side by side: at most 4 MiB
constexpr std::size_t kFetchedElements = std::size_t{1} << 18;  // of larger blocks the next is not fetched: no gain from 400,000 on

// A power of two, so that whole blocks make kRowsInOneSum. One thread, AMD Zen 4, against 64 KiB and any number: 20,000 x 384 from memory
// .27 -> .20 ns an element (AVX2 .19 -> .14), 10,000 x 768 .19 -> .15 (.16 -> .12), 256 x 768 in cache .147 -> .133.
std::size_t rows_at_once(std::size_t columns) {
    return std::clamp<std::size_t>(std::bit_floor(kBlockElements / std::max<std::size_t>(1, columns)), kFewestAtOnce, kRowsInOneSum);
}

// The sum of a thread's share of the rows.
class ShortRowsSum {
public:
    ShortRowsSum(const std::vector<MatrixView>& parts, double clip_norm, double unit)
        : runs_(cut_columns(parts, kRun)), scales_(parts, clip_norm), adder_(parts, unit), some_(lengths_of(parts)), all_(lengths_of(parts)),
          at_once_(rows_at_once(columns_of(parts))), fetches_next_(at_once_ * columns_of(parts) <= kFetchedElements) {}

    // Throws NonFinitePart.
    void add(std::size_t begin, std::size_t end) {
        while (begin < end) {
            if (some_rows_ == 0) some_.clear();
            const std::size_t count = std::min({at_once_, end - begin, kRowsInOneSum - some_rows_});
            block_.rows.resize(count);
            std::iota(block_.rows.begin(), block_.rows.end(), begin);
            scales_.find(block_.rows, block_.scales, fetches_next_);
            for (const Columns& run : runs_) adder_.add(run, block_, 0, count, some_.integers(run.part) + run.first, nullptr, fetches_next_);
            some_rows_ += count;
            begin += count;
            if (some_rows_ == kRowsInOneSum) join();
        }
    }

    // After the last rows, of which there is at least one.
    void put_into(UnitSums& sums, Put put) {
        join();
        sums.put(all_, put);
    }

    bool has_rows() const { return rows_ + some_rows_ > 0; }

private:
    void join() {
        if (some_rows_ == 0) return;
        all_.make_room(rows_ + some_rows_, rows_ > 0);
        all_.put(some_, rows_ > 0 ? Put::add : Put::store);
        rows_ += some_rows_;
        some_rows_ = 0;
    }

    static std::vector<std::size_t> lengths_of(const std::vector<MatrixView>& parts) {
        std::vector<std::size_t> lengths;
        for (const MatrixView& part : parts) lengths.push_back(part.columns);
        return lengths;
    }

    std::vector<Columns> runs_;
    RowScales scales_;
    RowAdder adder_;
    UnitSums some_;   // of at most kRowsInOneSum rows that are not in all_ yet
    UnitSums all_;
    std::size_t some_rows_ = 0;
    std::size_t rows_ = 0;   // in all_
    std::size_t at_once_;
    bool fetches_next_;
    ScaledRows block_;
};

// The sums by group of a thread's share of the rows.
class GroupedRowsSum {
public:
    GroupedRowsSum(const std::vector<MatrixView>& rows, const std::uint32_t* groups, std::size_t group_count, double clip_norm, double unit)
        : groups_(groups), columns_(rows[0].columns), runs_(cut_columns(rows, kRun)), scales_(rows, clip_norm), adder_(rows, unit),
          some_(std::vector<std::size_t>(group_count, columns_)), all_(std::vector<std::size_t>(group_count, columns_)), some_rows_(group_count),
          at_once_(rows_at_once(columns_)),
          fetches_next_(at_once_ * columns_ <= kFetchedElements) {
        some_.clear();
        all_.make_room(kMostRowsOfASum, false);
        all_.clear();
    }

    // Throws NonFinitePart.
    void add(std::size_t begin, std::size_t end) {
        for (; begin < end; begin += block_.size()) {
            block_.rows.resize(std::min(at_once_, end - begin));
            std::iota(block_.rows.begin(), block_.rows.end(), begin);
            scales_.find(block_.rows, block_.scales, fetches_next_);
            order_by_group(begin);
            for (std::size_t first = 0; first < block_.size();) {
                const std::uint32_t group = groups_[ordered_.rows[first]];
                std::size_t last = first + 1;
                while (last < block_.size() && groups_[ordered_.rows[last]] == group) ++last;
                add_to(group, first, last - first);
                first = last;
            }
            has_rows_ = true;
        }
    }

    void put_into(UnitSums& sums, Put put) {
        for (std::size_t group = 0; group < some_rows_.size(); ++group) join(group);
        sums.put(all_, put);
    }

    bool has_rows() const { return has_rows_; }

private:
    void order_by_group(std::size_t begin) {
        order_.resize(block_.size());
        std::iota(order_.begin(), order_.end(), std::uint32_t{0});
        std::sort(order_.begin(), order_.end(), [&](std::uint32_t one, std::uint32_t other) { return groups_[begin + one] < groups_[begin + other]; });
        ordered_.rows.clear();
        ordered_.scales.clear();
        for (const std::uint32_t place : order_) ordered_.push(block_.rows[place], block_.scales[place]);
    }

    void add_to(std::uint32_t group, std::size_t first, std::size_t count) {
        if (some_rows_[group] + count > kRowsInOneSum) join(group);
        for (const Columns& run : runs_) adder_.add(run, ordered_, first, count, some_.integers(group) + run.first, nullptr, fetches_next_);
        some_rows_[group] += count;
    }

    void join(std::size_t group) {
        if (some_rows_[group] == 0) return;
        all_.put(group, 0, some_.integers(group), padded(columns_), Put::add);
        std::fill_n(some_.integers(group), padded(columns_), 0u);
        some_rows_[group] = 0;
    }

    const std::uint32_t* groups_;
    std::size_t columns_;
    std::vector<Columns> runs_;
    RowScales scales_;
    RowAdder adder_;
    UnitSums some_;   // of at most kRowsInOneSum rows of each group that are not in all_ yet
    UnitSums all_;
    std::vector<std::size_t> some_rows_;
    std::size_t at_once_;
    bool fetches_next_;
    bool has_rows_ = false;
    ScaledRows block_, ordered_;
    std::vector<std::uint32_t> order_;
};

struct Failure {
    std::size_t row = std::numeric_limits<std::size_t>::max();
    std::exception_ptr error;
};

// Each thread sums a share of the rows, which `make_share` makes; the shares go into the sums when all of them are there.
template <class MakeShare>
void put_shares(const std::vector<MatrixView>& parts, MakeShare make_share, const Sums& sums, Put put) {
    Mutex mutex;
    std::vector<decltype(make_share())> shares;
    Failure first;
    parallel_ranges(parts[0].rows, columns_of(parts) / kElementsOfASample, [&] {
        const std::lock_guard<Mutex> lock(mutex);
        shares.push_back(make_share());
        return [&, share = shares.back().get()](std::size_t begin, std::size_t end) {
            try {
                share->add(begin, end);
            } catch (...) {
                const std::lock_guard<Mutex> locked(mutex);
                if (begin < first.row) first = {begin, std::current_exception()};
            }
        };
    });
    if (first.error) std::rethrow_exception(first.error);
    for (const auto& share : shares) {
        if (!share->has_rows()) continue;
        share->put_into(sums.units, put);
        if (put == Put::store) put = Put::add;
    }
}

}  // namespace

bool are_short(const std::vector<MatrixView>& parts) { return columns_of(parts) <= kShortColumns; }

void put_short_rows(const std::vector<MatrixView>& parts, double clip_norm, const Sums& sums, Put put) {
    put_shares(parts, [&] { return std::make_unique<ShortRowsSum>(parts, clip_norm, sums.unit); }, sums, put);
}

void put_grouped_rows(const MatrixView& rows, const std::uint32_t* groups, std::size_t group_count, double clip_norm, const Sums& sums, Put put) {
    const std::vector<MatrixView> parts = {rows};
    put_shares(parts, [&] { return std::make_unique<GroupedRowsSum>(parts, groups, group_count, clip_norm, sums.unit); }, sums, put);
}

}  // namespace hushvec
