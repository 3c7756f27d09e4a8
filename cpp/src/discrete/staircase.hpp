// Rejection below a staircase: samples of w(k), w a Decay, from whole counts of words and without its sum (docs/proofs/discrete.md).
//
// A factor C and steps of 2^step_bits integers are chosen so that below the function C w over cells, of 2^low_bits integers each, there is
// an area of almost 2^32. A word is a point: the whole number of a unit square below the staircase. Squares that lie below C w are
// accepted; for those that its curve crosses a further uniform, the height within the square, is compared with C w(k).
//
//   words                      what they are
//   bounds[0] = 0 ...          step by step, the squares below the lowest C w of the step: accepted
//   bounds[steps()] ...        step by step, those above them and below the highest: height against C w(k)
//   bounds[2 steps()] ...      2^16 of them, for everything outside the steps, by a geometric envelope
//   the rest                   rejected
#pragma once

#include <cstdint>
#include <vector>

#include "discrete/decay.hpp"
#include "discrete/place_words.hpp"
#include "discrete/sample_words.hpp"
#include "hushvec/discrete_noise.hpp"
#include "lanes/inline.hpp"

namespace hushvec {

struct Staircase {
    Staircase(DiscreteLaw law, double scale);

    std::uint32_t steps() const { return static_cast<std::uint32_t>(bounds.size() / 2); }

    // The first integer of a step, steps being numbered from the middle outwards.
    std::int64_t first_of(std::uint32_t step) const {
        return std::int64_t{static_cast<std::int32_t>((step >> 1) ^ (0 - (step & 1)))} * (std::int64_t{1} << step_bits);
    }

    std::int64_t integer_of(std::uint32_t cell, std::uint32_t low) const { return integer_of_cell(cell, low, low_bits); }

    // The last index whose bound is at most the word.
    std::uint32_t find(std::uint32_t word) const;

    Decay decay;
    int step_bits;           // integers of a step
    int cell_bits;           // cells of a step
    int low_bits;            // integers of a cell: step_bits - cell_bits
    int tail_bits;           // of an offset in the envelope outside the steps
    std::int64_t end;        // the steps cover [-end, end)
    std::uint32_t factor;    // C
    std::vector<std::uint32_t> bounds;
    WordGuide guide;

private:
    void make_guides();

    std::uint32_t first_open_;        // no open word is below it
    int open_shift_;
    std::vector<std::uint16_t> open_guide_;   // find() of first_open_, and of every word 2^open_shift_ further
};

// Of a scale in the range of discrete_noise.hpp. That of the last call on this thread is kept: it takes about 0.1 ms to make.
const Staircase& staircase_of(DiscreteLaw law, double scale);

// Sample `sample` of a call from its word and, where low_bits > 0, its low word, with further attempts where they are rejected. The tests
// ask for fixed point at once.
HUSHVEC_COLD std::int64_t settle_discrete(LoneBlocks& attempts, const Staircase& stairs, std::uint64_t sample, std::uint32_t word,
                                          std::uint32_t low, bool exactly = false);

}  // namespace hushvec
