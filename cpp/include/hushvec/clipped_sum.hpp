// The sum of clipped rows, and its release with Gaussian noise: docs/format.md section 7, docs/proofs/clipped_sum.md.
//
// A row may be cut into parts, each a matrix of its own: the per-sample gradients of several parameters. The norm is that of all
// parts of a row together. What a row adds to the sum is a function of that row alone and has a norm of at most clip_norm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "hushvec/array.hpp"
#include "hushvec/clip.hpp"
#include "hushvec/keystream.hpp"

namespace hushvec {

// Sums are whole multiples of this power of two: clip_norm is above 2^24 of them, and at most 2^25.
double sum_unit(double clip_norm);

inline constexpr std::size_t kMostRowsOfASum = std::size_t{1} << 27;   // 2^27 rows of at most 2^25 units: exact in float64

// How a row's scale is found: from its norm, which costs a reading of the row of its own, or by a guess from a sample of its
// elements that is checked in the one reading and corrected where it was wrong. The guess loses up to 3 % of the row's length.
enum class Clipping {
    exact,
    estimated,
};

// Part `part` holds NaN or Inf in row `row`.
class NonFinitePart : public std::invalid_argument {
public:
    NonFinitePart(std::size_t part, std::size_t row, double value);
};

class UnitSums;   // clip/unit_sums.hpp

// The raw noise of one step of a run, and how much of it enters a release; |coefficient| <= 1.
struct NoiseTerm {
    const KeyStream* stream;
    float coefficient;
};

// Throws std::invalid_argument unless every |coefficient| <= 1 and their sum is above 0 and at most 16.
void check_noise_terms(std::span<const NoiseTerm> terms);

class ClippedSum {
public:
    // `columns` are the lengths of the parts of a row. sigma = 0 releases the sums themselves. Throws std::invalid_argument.
    ClippedSum(std::vector<std::size_t> columns, double clip_norm, double sigma, std::size_t most_rows, Clipping clipping);
    ~ClippedSum();
    ClippedSum(const ClippedSum&) = delete;
    ClippedSum& operator=(const ClippedSum&) = delete;

    // One matrix for each part, all of one number of rows. Throws std::invalid_argument (shapes, too many rows) or NonFinitePart, and then
    // nothing has changed.
    void add(const std::vector<MatrixView>& parts);

    // As add, of rows whose part p of row i is multiplied by factors[p * rows + i] >= 0 before the row is clipped, exactly. `squares`, in
    // the same order, are what squares_of_parts finds for these parts: what a row adds has a norm of at most clip_norm if they are.
    void add_scaled(const std::vector<MatrixView>& parts, const std::vector<double>& squares, const std::vector<double>& factors);

    // Rows that are 0 but in one part: row i is that of part groups[i]. All parts have one length, at most 2^17; the scales are exact ones.
    // Throws as add.
    void add_grouped(const MatrixView& rows, const std::uint32_t* groups);

    std::size_t rows() const { return rows_; }
    std::size_t corrected_rows() const { return corrected_rows_; }   // rows whose guess was wrong, since the last release
    std::size_t parts() const { return columns_.size(); }
    std::size_t columns(std::size_t part) const { return columns_[part]; }
    bool has_noise() const { return sigma_ > 0; }

    // out = the sum of part `part` plus N(0, sigma^2), exactly rounded, by the stream's version: flat float32 memory. The sum stays: to
    // release a part twice is two releases, so reset() follows the last part.
    void release(std::size_t part, const KeyStream& stream, float* out);

    // out = the sum of part `part` plus sigma (c_1 Z_1 + ... + c_p Z_p), exactly rounded once, where Z_j are samples of the groups from
    // `first_group` on of stream j. Throws std::invalid_argument where sigma is 0 or the magnitudes of all c_j sum to more than 16.
    void release(std::size_t part, std::span<const NoiseTerm> terms, std::uint64_t first_group, float* out);

    void reset();

    // The sum of part `part` in whole units, without noise: what other processes' sums of a batch can be added to.
    std::vector<double> units(std::size_t part) const;

    // Holds these units from now on, one vector for each part, as the sum of `rows` rows: those of several processes, added up.
    // Throws std::invalid_argument (shapes, too many rows, what is not a whole number of units that the rows can have), and then
    // nothing has changed.
    void replace(std::size_t rows, const std::vector<std::vector<double>>& units);

private:
    void require_parts(const std::vector<MatrixView>& parts) const;
    ExactGrid grid(bool half_words) const { return exact_grid(sigma_, clip_norm_, half_words); }
    void require_room(std::size_t rows) const;
    void add_exactly(const std::vector<MatrixView>& parts);
    void add_estimated(const std::vector<MatrixView>& parts);

    std::vector<std::size_t> columns_;
    double clip_norm_;
    double sigma_;
    double unit_;
    std::size_t most_rows_;
    Clipping clipping_;
    std::unique_ptr<UnitSums> sums_;   // of no meaning while rows_ is 0
    std::size_t rows_ = 0;
    std::size_t corrected_rows_ = 0;
};

// The sum of the squares of part p of row i, at p * rows + i; Inf where it overflows float64. Throws NonFinitePart.
std::vector<double> squares_of_parts(const std::vector<MatrixView>& parts);

// out[i] = g round(sums[i] unit / g + sigma / g Z_i), exactly rounded: docs/format.md section 7. unit is a power of two, |sums[i]| at most
// 2^62. Throws std::invalid_argument unless unit / g is in [2^-53, 1].
void release_whole_sums(const std::int64_t* sums, std::size_t count, double unit, double sigma, const KeyStream& stream, double* out);

}  // namespace hushvec
