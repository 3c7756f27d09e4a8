#include "hushvec/clipped_sum.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "array/validate.hpp"
#include "clip/clipped_sum_passes.hpp"
#include "clip/norm_estimate.hpp"
#include "clip/part_rows.hpp"
#include "clip/row_norms.hpp"
#include "clip/row_scale_arithmetic.hpp"
#include "parallel/threads.hpp"

namespace hushvec {
namespace {

constexpr int kUnitBits = 25;
constexpr double kGuessMargin = 1.0 - 0x1p-15;   // covers the float32 sums of squares: docs/proofs/clipped_sum.md

// The scale that brings a row of this estimated norm into the ball, if the estimate is right.
double guessed_scale(double norm, double clip_norm) {
    const double target = clip_norm * kGuessMargin;
    return norm <= target ? 1.0 : static_cast<double>(round_toward_zero(target / norm));
}

// Whether a row that was scaled by a guess may stay as it was added.
bool stays(double squares, double scale, double norm_in_units) {
    const double most = norm_in_units * norm_in_units;
    const double least = scale == 1.0 ? 0.0 : (1 - kLargestLoss) * (1 - kLargestLoss) * most;
    return squares <= most * kGuessMargin && squares >= least;
}

}  // namespace

double sum_unit(double clip_norm) {
    const int floor = std::ilogb(clip_norm);
    return std::ldexp(1.0, floor + (std::ldexp(1.0, floor) < clip_norm ? 1 : 0) - kUnitBits);
}

NonFinitePart::NonFinitePart(std::size_t part, std::size_t row, double value)
    : std::invalid_argument("parts[" + std::to_string(part) + "] must be finite, got " +
                            (std::isnan(value) ? "nan" : (value < 0 ? "-inf" : "inf")) + " in row " + std::to_string(row)) {}

ClippedSum::ClippedSum(std::vector<std::size_t> columns, double clip_norm, double sigma, std::size_t most_rows, Clipping clipping)
    : columns_(std::move(columns)), clip_norm_(clip_norm), sigma_(sigma), unit_(1), most_rows_(most_rows), clipping_(clipping) {
    check_clip_norm(clip_norm);
    check_scale("sigma", sigma);
    if (has_noise()) grid(false);   // checks that there is one
    unit_ = sum_unit(clip_norm);
    if (most_rows < 1 || most_rows > kMostRowsOfASum) {
        throw std::invalid_argument("most_rows must be in [1, 2^27], got " + std::to_string(most_rows));
    }
    if (columns_.empty()) throw std::invalid_argument("shapes must name at least one part, got none");
    sums_ = std::make_unique<UnitSums>(columns_);
}

ClippedSum::~ClippedSum() = default;

void ClippedSum::reset() {
    rows_ = 0;
    corrected_rows_ = 0;
}

std::vector<double> ClippedSum::units(std::size_t part) const {
    std::vector<double> all(padded(columns_[part]));
    if (rows_ > 0) sums_->read(part, 0, all.size(), all.data());
    all.resize(columns_[part]);
    return all;
}

void ClippedSum::replace(std::size_t rows, const std::vector<std::vector<double>>& units) {
    if (units.size() != columns_.size()) {
        throw std::invalid_argument("units must have " + std::to_string(columns_.size()) + " arrays, got " + std::to_string(units.size()));
    }
    if (rows > most_rows_) {
        throw std::invalid_argument("rows of the sum must be <= most_rows = " + std::to_string(most_rows_) + ", got " + std::to_string(rows));
    }
    const double most = std::ldexp(static_cast<double>(rows), kUnitBits);
    for (std::size_t part = 0; part < units.size(); ++part) {
        const std::string name = "units[" + std::to_string(part) + "]";
        if (units[part].size() != columns_[part]) {
            throw std::invalid_argument(name + " must have " + std::to_string(columns_[part]) + " elements, got " + std::to_string(units[part].size()));
        }
        for (const double value : units[part]) {
            if (std::fabs(value) <= most && std::rint(value) == value) continue;
            throw std::invalid_argument(name + " must hold whole numbers of at most 2^25 for each row, got " + std::to_string(value));
        }
    }
    sums_->make_room(rows, false);
    for (std::size_t part = 0; part < units.size(); ++part) sums_->store(part, units[part].data(), units[part].size());
    rows_ = rows;
    corrected_rows_ = 0;
}

void ClippedSum::require_parts(const std::vector<MatrixView>& parts) const {
    if (parts.size() != columns_.size()) {
        throw std::invalid_argument("parts must have " + std::to_string(columns_.size()) + " arrays, got " + std::to_string(parts.size()));
    }
    const std::size_t rows = parts[0].rows;
    for (std::size_t part = 0; part < parts.size(); ++part) {
        if (parts[part].rows == rows && parts[part].columns == columns_[part]) continue;
        const auto shape = [](std::size_t r, std::size_t c) { return "(" + std::to_string(r) + ", " + std::to_string(c) + ")"; };
        throw std::invalid_argument("parts[" + std::to_string(part) + "] must have shape " + shape(rows, columns_[part]) + ", got " +
                                    shape(parts[part].rows, parts[part].columns));
    }
    require_room(rows);
}

void ClippedSum::add(const std::vector<MatrixView>& parts) {
    require_parts(parts);
    const std::size_t rows = parts[0].rows;
    sums_->make_room(rows_ + rows, rows_ > 0);
    if (clipping_ == Clipping::estimated && !has_float64(parts)) {
        add_estimated(parts);
    } else {
        add_exactly(parts);
    }
    rows_ += rows;
}

std::vector<double> squares_of_parts(const std::vector<MatrixView>& parts) { return part_squares(parts); }

void ClippedSum::add_scaled(const std::vector<MatrixView>& parts, const std::vector<double>& squares, const std::vector<double>& factors) {
    require_parts(parts);
    const std::size_t count = parts[0].rows;
    if (squares.size() != parts.size() * count || factors.size() != squares.size()) {
        throw std::invalid_argument("squares and factors must have one number for each part of each row");
    }
    ScaledRows rows;
    rows.rows.resize(count);
    std::iota(rows.rows.begin(), rows.rows.end(), std::size_t{0});
    rows.scales = factored_scales(squares, factors, count, clip_norm_);
    rows.part_step = count;
    sums_->make_room(rows_ + count, rows_ > 0);
    put_rows(parts, rows, {*sums_, unit_}, rows_ > 0 ? Put::add : Put::store);
    rows_ += count;
}

void ClippedSum::add_grouped(const MatrixView& rows, const std::uint32_t* groups) {
    for (const std::size_t columns : columns_) {
        if (columns == rows.columns) continue;
        throw std::invalid_argument("rows must have " + std::to_string(columns) + " columns, got " + std::to_string(rows.columns));
    }
    if (!are_short({rows})) throw std::invalid_argument("rows must have at most 2^17 columns, got " + std::to_string(rows.columns));
    for (std::size_t row = 0; row < rows.rows; ++row) {
        if (groups[row] < columns_.size()) continue;
        throw std::invalid_argument("groups must be below " + std::to_string(columns_.size()) + ", got " + std::to_string(groups[row]));
    }
    require_room(rows.rows);
    sums_->make_room(std::max(rows_ + rows.rows, kRowsInOneSum + 1), rows_ > 0);
    put_grouped_rows(rows, groups, columns_.size(), clip_norm_, {*sums_, unit_}, rows_ > 0 ? Put::add : Put::store);
    rows_ += rows.rows;
}

void ClippedSum::require_room(std::size_t rows) const {
    if (rows == 0) throw std::invalid_argument("parts must have at least 1 row, got 0");
    if (rows > most_rows_ - rows_) {
        throw std::invalid_argument("rows of the sum must be <= most_rows = " + std::to_string(most_rows_) + ", got " + std::to_string(rows_) +
                                    " + " + std::to_string(rows));
    }
}

void ClippedSum::add_exactly(const std::vector<MatrixView>& parts) {
    const Sums sums = {*sums_, unit_};
    const Put put = rows_ > 0 ? Put::add : Put::store;
    if (are_short(parts)) return put_short_rows(parts, clip_norm_, sums, put);
    ScaledRows rows;
    rows.rows.resize(parts[0].rows);
    std::iota(rows.rows.begin(), rows.rows.end(), std::size_t{0});
    rows.scales = exact_scales(parts, rows.rows, clip_norm_);   // the last that may throw
    put_rows(parts, rows, sums, put);
}

void ClippedSum::add_estimated(const std::vector<MatrixView>& parts) {
    std::vector<NormEstimate> estimates(parts[0].rows);
    const std::size_t sampled = std::accumulate(columns_.begin(), columns_.end(), std::size_t{0}) / (kSampleElements / 2);
    parallel_ranges(estimates.size(), sampled, [&] {
        return [&](std::size_t begin, std::size_t end) {
            for (std::size_t row = begin; row < end; ++row) estimates[row] = estimate_norm(parts, row);
        };
    });
    ScaledRows guessed, exact;
    for (std::size_t row = 0; row < estimates.size(); ++row) {
        if (estimates[row].usable) {
            guessed.push(row, guessed_scale(estimates[row].norm, clip_norm_));
        } else {
            exact.rows.push_back(row);
        }
    }
    exact.scales = exact_scales(parts, exact.rows, clip_norm_);   // may throw; nothing has changed

    const Sums sums = {*sums_, unit_};
    const bool first = rows_ == 0;
    if (guessed.size() == 0) return put_rows(parts, exact, sums, first ? Put::store : Put::add);
    const std::vector<double> squares = put_guessed_rows(parts, guessed, sums, first ? Put::store : Put::add);
    ScaledRows wrong;
    for (std::size_t i = 0; i < guessed.size(); ++i) {
        if (!stays(squares[i], guessed.scales[i], clip_norm_ / unit_)) wrong.push(guessed.rows[i], guessed.scales[i]);
    }
    std::vector<double> right;
    try {
        right = exact_scales(parts, wrong.rows, clip_norm_);
    } catch (...) {
        if (!first) replace_guessed_rows(parts, guessed, {}, sums);
        throw;
    }
    corrected_rows_ += wrong.size();
    exact.rows.insert(exact.rows.end(), wrong.rows.begin(), wrong.rows.end());
    exact.scales.insert(exact.scales.end(), right.begin(), right.end());
    if (exact.size() > 0) replace_guessed_rows(parts, wrong, exact, sums);
}

}  // namespace hushvec
