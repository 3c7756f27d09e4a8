// PrivUnitG on rows: direction, normals, one inner product, the push along the direction, rounding; open elements go to the ladder.
//
// Everything about a row is a function of its number, so any split into blocks and threads gives the same bits.
#include "privunit/privunit.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "array/line_vector.hpp"
#include "array/staging.hpp"
#include "array/validate.hpp"
#include "clip/row_scale.hpp"
#include "dispatch/dispatch.hpp"
#include "parallel/threads.hpp"
#include "privunit/component.hpp"
#include "privunit/direction.hpp"
#include "privunit/row_ladder.hpp"
#include "privunit/row_round.hpp"

namespace hushvec {
namespace {

constexpr std::size_t kRowsOfChunk = kComponentRows;
// Samples that go through together: their buffers, 16 bytes a sample, stay near the first-level cache.
constexpr std::size_t kSamplesAtOnce = std::size_t{1} << 11;
// Where rows do not make whole groups, the groups at both ends of a block are made twice: fewer, larger blocks.
constexpr std::size_t kUnalignedSamplesAtOnce = std::size_t{1} << 13;

constexpr std::size_t kBytesAhead = 4096;      // one page, where hardware prefetchers stop

// What one call is asked for.
struct Request {
    const KeyStream& stream;
    const MatrixView& x;
    PrivUnitLaw law;
    float s;
    float grid;   // what the integers are multiplied by: 1 for int8
    const MatrixView& out;
    PrivUnitTrial trial;
};

// Rows that make whole groups, where so few do.
std::size_t rows_at_once(std::size_t columns) {
    const auto rows_of = [columns](std::size_t samples) { return std::clamp<std::size_t>(samples / columns, 1, kRowsOfChunk); };
    const std::size_t aligned = kGroupSamples / std::gcd(columns, kGroupSamples);
    const std::size_t most = rows_of(kSamplesAtOnce);
    return most < aligned ? rows_of(kUnalignedSamplesAtOnce) : most / aligned * aligned;
}

// The work of one thread: its buffers, and chunks of 16 rows through them.
class RowWorker {
public:
    explicit RowWorker(const Request& request)
        : r_(request), directions_(request.x), rows_at_once_(rows_at_once(request.x.columns)),
          flat_(request.out.dtype == DType::float32 && request.out.is_flat()) {}

    // False, with nothing written from there on, where a row has NaN or Inf; bad_row() then names it.
    bool run_chunk(std::size_t chunk);
    std::size_t bad_row() const { return bad_row_; }

private:
    bool run_rows(std::size_t begin, std::size_t end);
    level_one::Push push_of(std::size_t row, std::size_t at);
    template <class Visit>
    void for_each_open(std::size_t count, Visit visit) const;
    void settle(std::size_t begin, std::size_t end, float* y);

    std::size_t columns() const { return r_.x.columns; }

    const Request& r_;
    Directions directions_;
    const std::size_t rows_at_once_;
    const bool flat_;                            // float32 rows that results can be written to as groups
    Component components_[kRowsOfChunk];         // of the chunk's rows
    double squares_[kRowsOfChunk];               // R^2 of the chunk's rows
    LineVector<float> direction_, push_, z_, y_;
    std::vector<float> radius_squares_;
    std::vector<std::uint16_t> open_;
    std::size_t offset_ = 0;                     // of the rows at hand in the buffers
    std::size_t bad_row_ = 0;
};

bool RowWorker::run_chunk(std::size_t chunk) {
    const std::size_t begin = chunk * kRowsOfChunk, end = std::min(begin + kRowsOfChunk, r_.x.rows);
    draw_components(r_.stream, r_.law, chunk, end - begin, components_);
    for (std::size_t row = begin; row < end; row += rows_at_once_) {
        if (!run_rows(row, std::min(row + rows_at_once_, end))) return false;
    }
    return true;
}

level_one::Push RowWorker::push_of(std::size_t row, std::size_t at) {
    const Kernels& kernels = active_kernels();
    const DirectionProducts sums = kernels.direction_products(direction_.data() + at, z_.data() + at, columns());
    squares_[row % kRowsOfChunk] = sums.squares;
    double radius_squares = 0;
    for (std::size_t group = at / kGroupSamples; group <= (at + columns() - 1) / kGroupSamples; ++group) radius_squares += radius_squares_[group];
    const Component& component = components_[row % kRowsOfChunk];
    return level_one::push_of(kernels.gaussian_bound, double{r_.s}, columns(), sums, radius_squares, component.value, component.half_width);
}

bool RowWorker::run_rows(std::size_t begin, std::size_t end) {
    const std::size_t first = begin * columns(), count = (end - begin) * columns();
    offset_ = first % kGroupSamples;
    const std::size_t groups = (offset_ + count + kGroupSamples - 1) / kGroupSamples;
    const bool whole = flat_ && groups * kGroupSamples == count;
    for (auto* buffer : {&direction_, &push_, &z_}) buffer->resize(groups * kGroupSamples, 0.0f);
    y_.resize(whole ? 0 : groups * kGroupSamples);
    radius_squares_.resize(groups);
    open_.resize(groups * kGroupSamples / kRun);

    for (std::size_t row = begin; row < end; ++row) {
        if (directions_.find(row, direction_.data() + offset_ + (row - begin) * columns())) continue;
        bad_row_ = row;
        return false;
    }
    const Kernels& kernels = active_kernels();
    kernels.unit_normals(r_.stream, first / kGroupSamples, groups, z_.data(), radius_squares_.data());

    const std::size_t push_run = columns() % kRun == 0 ? kRun : 1;
    double per_direction = level_one::kSmallestError;
    for (std::size_t row = begin; row < end; ++row) {
        const std::size_t at = offset_ + (row - begin) * columns();
        const level_one::Push push = push_of(row, at);
        const bool bounded = std::isfinite(push.error);   // else NaN opens the whole row
        std::fill_n(push_.begin() + static_cast<std::ptrdiff_t>(at / push_run), columns() / push_run, bounded ? push.value : NAN);
        if (bounded) per_direction = std::max(per_direction, push.error);
    }
    const double factor = r_.trial.bound_factor;
    const level_one::Limits limits = level_one::limits_of(kernels.gaussian_bound, double{r_.s}, factor);
    float* y = whole ? reinterpret_cast<float*>(r_.out.data) + first : y_.data();
    kernels.privunit_round({groups, z_.data(), direction_.data(), push_.data(), push_run == kRun, r_.s, r_.grid, limits,
                            level_one::rounded_up(factor * per_direction), y, open_.data(), whole ? kBytesAhead : 0});
    settle(begin, end, y);
    if (!whole) scatter(y_.data() + offset_, r_.out, first, count, Rounding::nearest);
    return true;
}

// Calls visit(at) for every open sample among `count` from offset_ on. Groups rarely have one, so flags are read four words at a time.
template <class Visit>
void RowWorker::for_each_open(std::size_t count, Visit visit) const {
    constexpr std::size_t kWords = sizeof(std::uint64_t) / sizeof(open_[0]);
    for (std::size_t word = 0; word < open_.size(); word += kWords) {
        std::uint64_t four;
        std::memcpy(&four, &open_[word], sizeof four);
        if (four == 0) continue;
        for (std::size_t at = word * kRun; at < (word + kWords) * kRun; ++at) {
            const bool open = (open_[at / kRun] >> at % kRun & 1) != 0;
            if (open && at >= offset_ && at < offset_ + count) visit(at);
        }
    }
}

// y holds the rows at hand from offset_ on.
void RowWorker::settle(std::size_t begin, std::size_t end, float* y) {
    std::optional<RowLadder> ladder;
    std::size_t row_of_ladder = end;
    for_each_open((end - begin) * columns(), [&](std::size_t at) {
        const std::size_t row = begin + (at - offset_) / columns();
        if (row != row_of_ladder) {
            const std::span<const float> direction(direction_.data() + offset_ + (row - begin) * columns(), columns());
            // clang-format off
            ladder.emplace(r_.stream, PrivUnitRow{row * columns(), direction, squares_[row % kRowsOfChunk],
                                                  components_[row % kRowsOfChunk], r_.law.threshold}, double{r_.s});
            // clang-format on
            row_of_ladder = row;
        }
        y[at] = static_cast<float>(ladder->round((at - offset_) % columns(), r_.trial.first_level)) * r_.grid;
    });
}

}  // namespace

ExactGrid privunit_grid(double sigma) {
    constexpr int kSigmaBits = 3;   // s in [8, 16): rounding adds at most 0.13 % to the variance, and opens few rows
    const float rounded = exact_sigma(sigma);
    return {rounded, std::ldexp(1.0f, std::ilogb(rounded) - kSigmaBits)};
}

void privunit(const KeyStream& stream, const MatrixView& x, PrivUnitLaw law, double sigma, const MatrixView& out, Output output) {
    privunit_trial(stream, x, law, sigma, out, output, {});
}

void privunit_trial(const KeyStream& stream, const MatrixView& x, PrivUnitLaw law, double sigma, const MatrixView& out, Output output,
                    PrivUnitTrial trial) {
    privunit_epsilon(law);   // its checks
    const bool integers = out.dtype == DType::int8;
    const ExactGrid grid = integers ? privunit_int8_grid(sigma, law.threshold) : privunit_grid(sigma);
    if (x.size() == 0) return;
    if (output == Output::in_use) require_finite(x);

    const Request request = {stream, x, law, grid.sigma / grid.grid, integers ? 1.0f : grid.grid, out, trial};
    FirstBadRow bad(x.rows);
    parallel_ranges((x.rows + kRowsOfChunk - 1) / kRowsOfChunk, kRowsOfChunk * x.columns, [&] {
        return [&, worker = RowWorker(request)](std::size_t begin, std::size_t end) mutable {
            for (std::size_t chunk = begin; chunk < end; ++chunk) {
                if (!worker.run_chunk(chunk)) return bad.note(worker.bad_row());
            }
        };
    });
    bad.require_none(x);
}

}  // namespace hushvec
