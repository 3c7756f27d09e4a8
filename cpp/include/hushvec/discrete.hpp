// Discrete answers: k-ary randomized response, and the k best of many scores under Gumbel noise.
//
// docs/format.md section 9 is the specification of the bits, docs/proofs/randomized_response.md and
// docs/proofs/gumbel_top_k.md the proofs of the guarantees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hushvec/keystream.hpp"

namespace hushvec {

// ---- randomized response ----

inline constexpr std::uint64_t kMostLabels = std::uint64_t{1} << 24;

// Probabilities in units of 2^-64: the truth has `truth`, each of the labels - 1 other labels has `other`.
//
//     truth + (labels - 1) other = 2^64,      other <= truth <= e^epsilon other
struct ResponseLaw {
    std::uint64_t labels;
    std::uint64_t truth;
    std::uint64_t other;   // ceil(2^64 / (e^epsilon + labels - 1))
};

// The law of the largest truth that is epsilon-DP in units of 2^-64. Throws std::invalid_argument unless 0 < epsilon < inf and
// 2 <= labels <= kMostLabels, and where epsilon is so small that 64 bits cannot give the truth its share.
ResponseLaw response_law(double epsilon, std::uint64_t labels);

// Throws std::invalid_argument unless all codes are in [0, labels). Code is any fixed-width integer of 8 to 64 bits; codes[0] is at
// `first_position` of what the caller has. What is checked must be memory that nobody else writes to: it is read again.
template <class Code>
void check_codes(const Code* codes, std::size_t count, std::uint64_t labels, std::size_t first_position = 0);

// out[i] is codes[i] or another code, by the law. Both lie in [0, law.labels); out may be codes.
template <class Code>
void randomized_response(const KeyStream& stream, const ResponseLaw& law, const Code* codes, std::size_t count, Code* out);

// ---- Poisson sampling ----

// The indices below `count` that are kept, in order, each independently with probability threshold / 2^64.
std::vector<std::int64_t> poisson_sample(const KeyStream& stream, std::size_t count, std::uint64_t threshold);

// ---- the k best of many scores ----

// How many candidates there are, how many are selected, and the noise: candidate i has the noisy score
// epsilon score_i / (2 sensitivity) + Gumbel, over the reals.
struct TopKSelection {
    std::size_t candidates;
    std::size_t picks;
    double epsilon;       // of one pick
    double sensitivity;   // of one score
};

// A row whose order float64 does not decide, and the candidates among which the k best are: the caller compares them with as many
// bits as it takes.
struct UndecidedRow {
    std::size_t row;
    std::vector<std::uint64_t> candidates;
};

// Throws std::invalid_argument unless 1 <= picks <= candidates, and epsilon and sensitivity are in [2^-100, 2^100].
void check_selection(const TopKSelection& selection);

// Throws std::invalid_argument naming the first score that is NaN or Inf.
template <class Score>
void check_scores(const Score* scores, std::size_t rows, std::size_t candidates);

// Row r of `indices` (picks elements) becomes the best candidates of row r of `scores` (finite), the best first, wherever that is
// certain. The other rows of `indices` hold nothing of use and are returned, in order.
//
// bound_factor scales the error bounds. It is 1; the tests pass less, to see that selections then go wrong.
template <class Score>
std::vector<UndecidedRow> gumbel_top_k(const KeyStream& stream, const TopKSelection& selection, const Score* scores, std::size_t rows,
                                       std::int64_t* indices, double bound_factor = 1.0);

}  // namespace hushvec
