// Reports of single people to a collector, and the sums a collector keeps of them.
//
// docs/format.md section 12 is the specification of the bits, docs/proofs/frequency_oracles.md and docs/proofs/rappor.md the proofs
// of the guarantees. Reports of k-ary randomized response are made by hushvec/discrete.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hushvec/discrete.hpp"
#include "hushvec/keystream.hpp"

namespace hushvec {

// ---- reports of bits ----
//
// Bit b of a report is bit b % 32 of its word b / 32; bits past the last one are zero.

inline constexpr std::size_t kMostReportBits = std::size_t{1} << 24;
inline constexpr std::size_t kReportWordBits = 32;

constexpr std::size_t report_words(std::size_t bits) { return (bits + kReportWordBits - 1) / kReportWordBits; }

// How many of the 2^64 values of a uniform report a 1, for a bit that is 1 and for a bit that is 0. Neither is 0.
struct BitLaw {
    std::uint64_t from_one;
    std::uint64_t from_zero;
};

// Rows of `bits` bits each, one after the other.
struct BitRows {
    const std::uint32_t* words;
    std::size_t rows;
    std::size_t bits;
};

// Every bit of `truth` drawn anew by the law. `out` may be truth.words.
void perturb_bits(const KeyStream& stream, const BitLaw& law, const BitRows& truth, std::uint32_t* out);

// perturb_bits of rows of `bits` bits whose one 1 stands at codes[row] < bits.
void one_bit_reports(const KeyStream& stream, const BitLaw& law, const std::int64_t* codes, std::size_t count, std::size_t bits,
                     std::uint32_t* out);

// Throws std::invalid_argument naming the first row with a 1 past its last bit.
void check_bit_rows(const BitRows& reports);

struct Kernels;

// counts[b] grows by the number of rows whose bit b is 1.
void count_bits(const BitRows& reports, std::int64_t* counts);
void count_bits(const Kernels& kernels, const BitRows& reports, std::int64_t* counts);

// The same in one row of counts for each group: those of group g begin at counts + g * bits. groups[row] < group_count.
void count_bits_by_group(const BitRows& reports, const std::uint32_t* groups, std::size_t group_count, std::int64_t* counts);

// ---- reports of codes ----

// counts[codes[i]] grows by one for each i. Throws std::invalid_argument, with nothing counted, unless all codes are in [0, labels).
template <class Code>
void count_codes(const Code* codes, std::size_t count, std::uint64_t labels, std::int64_t* counts);

// ---- Hadamard response ----

// `blocks` Hadamard matrices of order `order`, both powers of two, order >= 2. Word w belongs to block w % blocks and to row
// w / blocks + 1 of its matrix. `law` is that of 2 * blocks labels.
struct HadamardLaw {
    std::uint64_t blocks;
    std::uint64_t order;
    ResponseLaw law;
};

// out[i] = block * order + column: a column where the row of word codes[i] has +1 with the truth's share, or any other.
void hadamard_reports(const KeyStream& stream, const HadamardLaw& law, const std::int64_t* codes, std::size_t count, std::uint32_t* out);

}  // namespace hushvec
