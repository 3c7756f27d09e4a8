// Clipped rows, a block at a time, through a copy that belongs to the thread at work.
//
// Another thread may write to the caller's rows during a call: a buffer that is filled again, a mapped file, a shared tensor. With the
// norm from one reading of a row and its values from another, a row of any length could pass for a short one. So a block is copied
// first, in one reading, and norm and values are those of the copy: each released row is the mechanism's answer to some finite row inside
// the ball. The copy stays in the first-level cache, and while one block gets its noise the next is fetched.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

#include "array/line_vector.hpp"
#include "array/staging.hpp"
#include "clip/part_rows.hpp"
#include "clip/row_scale.hpp"
#include "clip/row_scale_arithmetic.hpp"
#include "dispatch/kernels.hpp"
#include "hushvec/clip.hpp"
#include "hushvec/keystream.hpp"
#include "parallel/threads.hpp"

namespace hushvec {

// What one thread holds of the rows: some of them, in whole groups of 256 samples, and their q. Scale is float for float32, float16 and
// bfloat16 rows, double for float64 rows.
template <class Scale>
class StagedRows {
public:
    // `ahead`: what load() fetches; nothing where what is done with a block fetches the next one (bytes_to_next_block).
    // `place`: memory for the only row that nobody else can see, such as a new output, or x itself where it is that; null: none.
    StagedRows(const MatrixView& x, double clip_norm, double grid, std::size_t most_rows, Ahead ahead, Scale* place = nullptr)
        : x_(x), clip_norm_(clip_norm), grid_(grid), most_rows_(most_rows), ahead_(ahead), place_(place),
          elements_((place == nullptr ? most_rows * x.columns : 0) + 2 * kGroupSamples), scales_(most_rows) {}

    // Rows [begin, end), at most most_rows. False where one of them holds NaN or Inf, which bad_row() then names.
    bool load(std::size_t begin, std::size_t end, bool on_all_threads = false) {
        begin_ = begin;
        first_ = begin * columns();
        end_ = end * columns();
        const std::size_t in_place = place_ == nullptr ? 0 : columns() / kGroupSamples * kGroupSamples;
        const std::size_t offset = first_ % kGroupSamples, behind = offset + (end_ - first_) - in_place;
        std::fill_n(elements_.data(), offset, Scale{0});
        std::fill_n(elements_.data() + behind, (kGroupSamples - behind % kGroupSamples) % kGroupSamples, Scale{0});
        Scale* const copy = place_ == nullptr ? elements_.data() + offset : place_;
        if (on_all_threads) {
            bad_row_ = begin + load_on_all_threads(copy);
            if (place_ != nullptr) std::copy(copy + in_place, copy + columns(), elements_.data());
        } else if (columns() >= kLongRow) {
            bad_row_ = begin + load_row_by_row(copy);
        } else {
            gather(x_, first_, end_ - first_, copy);
            bad_row_ = begin + row_scales(copy, end - begin, columns(), clip_norm_, grid_, scales_.data());
        }
        return bad_row_ == end;
    }

    std::size_t bad_row() const { return bad_row_; }
    std::size_t columns() const { return x_.columns; }
    std::size_t first_sample() const { return first_; }   // of the rows at hand
    std::size_t end_sample() const { return end_; }

    // q of a row at hand.
    Scale scale(std::size_t row) const { return scales_[row - begin_]; }

    // A sample and those behind it, to the end of the last group. Groups that the rows begin and end in are there as a whole, with zeros
    // for the samples of other rows.
    const Scale* at(std::size_t sample) const {
        if (place_ == nullptr) return elements_.data() + (sample - first_ / kGroupSamples * kGroupSamples);
        const std::size_t in_place = columns() / kGroupSamples * kGroupSamples;
        return sample < in_place ? place_ + sample : elements_.data() + (sample - in_place);
    }

    // q of every sample in [sample, sample + count), 0 for those of other rows.
    void expand_scales(std::size_t sample, std::size_t count, Scale* out) const {
        const std::size_t before = sample < first_ ? std::min(first_ - sample, count) : 0;
        out = std::fill_n(out, before, Scale{0});
        sample += before;
        count -= before;
        const std::size_t here = sample < end_ ? std::min(end_ - sample, count) : 0;
        std::fill_n(out + here, count - here, Scale{0});
        if (columns() == 1) {
            std::copy_n(scales_.data() + (sample - first_), here, out);
            return;
        }
        const Scale* scale = scales_.data() + (sample - first_) / columns();
        std::size_t left_in_row = columns() - sample % columns();
        for (std::size_t left = here; left > 0; left_in_row = columns()) {
            const std::size_t length = std::min(left, left_in_row);
            out = std::fill_n(out, length, *scale++);
            left -= length;
        }
    }

    // The same of rows of whole half groups: a vector of kRunScales for every half group.
    void expand_half_groups(std::size_t sample, std::size_t count, Scale* out) const {
        for (std::size_t at = sample; at < sample + count; at += kHalfGroup) {
            const bool here = at >= first_ && at < end_;
            out = std::fill_n(out, kRunScales, here ? scales_[(at - first_) / columns()] : Scale{0});
        }
    }

    // From a sample at hand to the one in its place of the next block, where the caller has it: what to fetch meanwhile. 0 behind the last
    // block: to fetch what is not there at all takes 130 ns a line (AMD Zen 1), three times as long as the noise of its elements.
    std::size_t bytes_to_next_block() const {
        const std::size_t next = first_ + most_rows_ * columns();
        if (x_.dtype != dtype_of<Scale> || !x_.is_flat() || next >= x_.size()) return 0;
        return reinterpret_cast<std::uintptr_t>(x_.data) + next * sizeof(Scale) - reinterpret_cast<std::uintptr_t>(at(first_));
    }

private:
    static constexpr std::size_t kPiece = std::size_t{1} << 16;
    static constexpr std::size_t kLongRow = 64;          // from here on copied and squared in one go

    // How many rows come before the first with NaN or Inf.
    std::size_t load_row_by_row(Scale* copy) {
        const std::size_t rows = (end_ - first_) / columns();
        for (std::size_t row = 0; row < rows; ++row, copy += columns()) {
            const double sum = stage_row(x_, begin_ + row, copy, ahead_);
            const double scale = row_scale(std::span<const Scale>(copy, columns()), sum, clip_norm_);
            if (std::isnan(scale)) return row;
            scales_[row] = in_grid_units(scale, grid_, Scale{});
        }
        return rows;
    }

    // The same of one row.
    std::size_t load_on_all_threads(Scale* copy) {
        if (reinterpret_cast<std::byte*>(copy) != x_.data) {
            parallel_for((columns() + kPiece - 1) / kPiece, kPiece / kCopiesOfASample, [&](std::size_t from, std::size_t to) {
                const std::size_t at = from * kPiece;
                gather(x_, first_ + at, std::min(to * kPiece, columns()) - at, copy + at);
            });
        }
        const std::span<const Scale> row(copy, columns());
        const double scale = row_scale(row, sum_of_squares_on_threads(copy, columns()), clip_norm_);
        scales_[0] = in_grid_units(scale, grid_, Scale{});
        return std::isnan(scale) ? 0 : 1;
    }

    const MatrixView& x_;
    const double clip_norm_;
    const double grid_;
    const std::size_t most_rows_;
    const Ahead ahead_;
    Scale* const place_;
    LineVector<Scale> elements_;
    LineVector<Scale> scales_;
    std::size_t begin_ = 0, first_ = 0, end_ = 0, bad_row_ = 0;
};

// A block of rows that make whole grains: 8 KiB of float32, so that the first-level cache also holds its result and the block that is
// fetched meanwhile. With 16 KiB clip alone, and noise in place, took some per cent longer.
inline constexpr std::size_t kBlockSamples = std::size_t{1} << 11;
// Where only many rows make whole grains, the groups at both ends of a block are made twice: fewer, larger blocks. Below the 128 KiB from
// which the C library maps memory anew for every call.
inline constexpr std::size_t kLargeBlockSamples = 3 * (std::size_t{1} << 13);

inline std::size_t rows_of_block(std::size_t columns, std::size_t grain) {
    const std::size_t aligned = grain / std::gcd(columns, grain);
    if (aligned * columns > kLargeBlockSamples) return std::max<std::size_t>(1, kLargeBlockSamples / columns);
    return aligned * std::max<std::size_t>(1, kBlockSamples / (aligned * columns));
}

// Stages all rows and calls work(staged rows, first_sample, last_sample) on ranges that cover all samples, each of whole rows or, within
// a row, of whole grains. Every thread works with a `work` of its own, from make_work(most samples of a block). An output in use is
// untouched where x holds NaN or Inf; if such a number appears only during the call, a part of it is written. Throws NonFiniteRow; work
// must not throw.
template <class Scale, class MakeWork>
void for_clipped_rows(const MatrixView& x, double clip_norm, double grid, std::size_t grain, const MatrixView& out, Output output,
                      MakeWork make_work) {
    const bool one_block = x.size() <= kLargeBlockSamples;   // read before anything is written
    if (output == Output::in_use && !one_block) require_finite(x);
    constexpr Ahead ahead = decltype(make_work(std::size_t{}))::kAhead;
    FirstBadRow bad(x.rows);
    const std::size_t at_once = one_block && output == Output::in_use ? x.rows : std::min(x.rows, rows_of_block(x.columns, grain));

    if (x.rows < useful_threads(x.size(), 1)) {   // few long rows: all threads work at each
        const bool in_place = x.rows == 1 && output == Output::fresh && out.dtype == dtype_of<Scale> && out.is_flat();
        StagedRows<Scale> rows(x, clip_norm, grid, 1, ahead, in_place ? reinterpret_cast<Scale*>(out.data) : nullptr);
        for (std::size_t row = 0; row < x.rows; ++row) {
            if (!rows.load(row, row + 1, true)) {
                bad.note(row);
                break;
            }
            const std::size_t first = rows.first_sample() / grain, last = (rows.end_sample() + grain - 1) / grain;
            parallel_for(last - first, grain, [&](std::size_t begin, std::size_t end) {
                auto work = make_work(x.columns);
                work(rows, std::max((first + begin) * grain, rows.first_sample()), std::min((first + end) * grain, rows.end_sample()));
            });
        }
        return bad.require_none(x);
    }

    const std::size_t block_samples = at_once * x.columns;
    parallel_ranges((x.rows + at_once - 1) / at_once, block_samples, [&] {
        return [&, rows = StagedRows<Scale>(x, clip_norm, grid, at_once, ahead),
                work = make_work(block_samples)](std::size_t begin, std::size_t end) mutable {
            for (std::size_t block = begin; block < end; ++block) {
                if (!rows.load(block * at_once, std::min((block + 1) * at_once, x.rows))) return bad.note(rows.bad_row());
                work(rows, rows.first_sample(), rows.end_sample());
            }
        };
    });
    bad.require_none(x);
}

}  // namespace hushvec
