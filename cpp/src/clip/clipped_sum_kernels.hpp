// Norms of long rows, and rows added to their sum in whole units (docs/format.md sections 4 and 7).
//
// V = trunc(x q) is an integer of at most 2^25, so sums of it are exact and in any order. Several rows are read side by side: more streams
// keep more of memory's requests in flight, and the sum is loaded and stored once for all of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "clip/row_kernels.hpp"
#include "lanes/inline.hpp"
#include "lanes/prefetch.hpp"

namespace hushvec {

// An element of a row whose norm is not yet known is cut to this, so that int32 holds the sum of kRowsInOneSum of them. Only a row
// whose scale is wrong has a larger one: V of a row that is clipped is smaller (docs/proofs/clipped_sum.md).
inline constexpr float kElementLimit = 0x1p25f - 2;
inline constexpr std::size_t kRowsInOneSum = 64;
static_assert(double{kElementLimit} * kRowsInOneSum < 0x1p31);

// sums[j] += trunc(x_j q) for each of at most kRowsInOneSum rows. Where `squares` is not null, x_j q may be any number: it is cut to
// kElementLimit, and squares[i] = the sum of (x_j q)^2, in float32 in the order of docs/format.md section 4. bytes_ahead: as of NextRows,
// of rows whose norms were found just before.
struct RowsToAdd {
    const float* const* rows;
    const float* q;
    std::size_t count;
    std::size_t columns;
    std::uint32_t* sums;   // two's complement
    double* squares;
    std::size_t bytes_ahead = 0;
};

// What lies `bytes_ahead` of the rows at work is read in a later call, unless that is 0. Their norms and their sums fetch one half of it
// each: [4096, 1000] from memory, AMD Zen 4, one thread, 1.11 ms in place of 1.38.
class NextRows {
public:
    enum Half {
        first_lines,
        second_lines,
    };

    HUSHVEC_INLINE explicit NextRows(std::size_t bytes_ahead) : bytes_ahead_(bytes_ahead) {}

    HUSHVEC_INLINE bool any() const { return bytes_ahead_ != 0; }

    // One line of the two that kNormAccumulators elements take.
    HUSHVEC_INLINE void fetch(const float* elements, Half half) const {
        prefetch_for_later(elements, bytes_ahead_ + half * kCacheLine);
    }

private:
    static_assert(kNormAccumulators * sizeof(float) == 2 * kCacheLine);

    std::size_t bytes_ahead_;
};

// How far ahead of use rows are fetched; towards the end of a run, the beginning of the rows that come next. [64, 4,194,304] on Intel Sapphire
// Rapids class, one thread, where reading alone takes 0.070 s: 4 rows side by side 0.088 s, 8 rows 0.078 s, and with the next rows 0.074 s.
inline constexpr std::size_t kElementsAhead = 256;

// Rows first .. first + rows_at_once - 1 of `count`, and the rows that are read after them: those that follow, or the first ones again in
// the columns behind.
template <std::size_t rows_at_once>
struct SomeRows {
    HUSHVEC_INLINE SomeRows(const float* const* rows, std::size_t count, std::size_t columns, std::size_t first) : columns_(columns) {
        for (std::size_t r = 0; r < rows_at_once; ++r) {
            const std::size_t after = first + rows_at_once + r;
            at[r] = rows[first + r];
            next_[r] = after < count ? rows[after] : rows[(after - count) % count] + columns;
        }
    }

    // What is `elements` long and kElementsAhead of element j.
    template <std::size_t elements>
    HUSHVEC_INLINE void fetch_ahead(std::size_t j) const {
        const bool in_run = j + kElementsAhead < columns_;
        for (std::size_t r = 0; r < rows_at_once; ++r) {
            const float* ahead = in_run ? at[r] + j + kElementsAhead : next_[r] + (j + kElementsAhead - columns_);
            for (std::size_t byte = 0; byte < elements * sizeof(float); byte += kCacheLine) prefetch_to_read(ahead, byte);
        }
    }

    // What is `elements` long in the rows that come next, in the place of element j. [64, 4,194,304] on AMD Zen 4, one thread, sums alone:
    // 0.074 s without it, 0.053 s with it.
    template <std::size_t elements>
    HUSHVEC_INLINE void fetch_next(std::size_t j) const {
        for (std::size_t r = 0; r < rows_at_once; ++r) {
            for (std::size_t byte = 0; byte < elements * sizeof(float); byte += kCacheLine) prefetch_for_later(next_[r] + j, byte);
        }
    }

    const float* at[rows_at_once];

private:
    const float* next_[rows_at_once];
    std::size_t columns_;
};

// With eight lanes and fewer, registers hold the accumulators of one or two rows, and prefetchers that follow each row do better than
// requests far ahead. There 8 rows are read side by side in steps, with what accumulates in the first-level cache between them.
// [256, 100000] on AMD Zen 3, one thread: norms 9.2 ms one row after the other, 5.7 ms in steps; 32 rows of 4,194,304, sums alone: 46 ms
// two at a time, 32 ms in steps.
template <class V>
struct Steps {
    static constexpr bool needed = V::lanes < 16;
    static constexpr std::size_t elements = 64;
    static constexpr std::size_t elements_ahead = 64;
    // Shorter rows that lie one behind the other are one run of memory: each row after the other, and the next ones in step with them.
    static constexpr std::size_t fewest_columns = 1536;
    // Norms of rows this long, with no next ones fetched, go in steps with any number of lanes. [256, 100000] with its sums on AMD Zen 4,
    // AVX-512: 6.2 ms, 5.3 ms in steps.
    static constexpr std::size_t long_row = std::size_t{1} << 13;

    // Whether rows go without NextRows.
    static HUSHVEC_INLINE bool fit(std::size_t columns, std::size_t bytes_ahead) { return needed && (bytes_ahead == 0 || columns >= fewest_columns); }

    // What is kNormAccumulators long.
    static HUSHVEC_INLINE void fetch_ahead(const float* of_row) {
        for (std::size_t line = 0; line < 2; ++line) prefetch_to_read(of_row + elements_ahead, line * kCacheLine);
    }
};

// Calls some.operator()<n>(first) for all of `count` rows, `at_once` at a time and then half of that, down to single ones.
template <std::size_t at_once, class Some>
HUSHVEC_INLINE void for_some_rows(std::size_t count, Some some, std::size_t row = 0) {
    for (; row + at_once <= count; row += at_once) some.template operator()<at_once>(row);
    if constexpr (at_once > 1) for_some_rows<at_once / 2>(count, some, row);
}

// ---- norms ----

template <class V, std::size_t rows_at_once>
void square_some_rows(const float* const* rows, std::size_t count, std::size_t columns, std::size_t first, double* squares, NextRows next) {
    constexpr std::size_t vectors = kNormAccumulators / V::lanes;
    const SomeRows<rows_at_once> some(rows, count, columns, first);
    typename V::F64Pair accumulator[rows_at_once][vectors];
    for (auto& row : accumulator) {
        for (auto& vector : row) vector = V::zero_pair();
    }
    const std::size_t whole = columns / kNormAccumulators * kNormAccumulators;
    for (std::size_t j = 0; j < whole; j += kNormAccumulators) {
        some.template fetch_ahead<kNormAccumulators>(j);
        if (next.any()) {
            for (std::size_t r = 0; r < rows_at_once; ++r) next.fetch(some.at[r] + j, NextRows::first_lines);
        } else {
            some.template fetch_next<kNormAccumulators>(j);
        }
        for (std::size_t r = 0; r < rows_at_once; ++r) add_squares<V>(some.at[r] + j, accumulator[r]);
    }
    for (std::size_t r = 0; r < rows_at_once; ++r) squares[first + r] = joined_squares<V>(accumulator[r], some.at[r] + whole, columns - whole);
}

template <class V, std::size_t rows_at_once>
void square_rows_in_steps(const float* const* rows, std::size_t columns, double* squares) {
    constexpr std::size_t vectors = kNormAccumulators / V::lanes;
    alignas(kCacheLine) double sums[rows_at_once][kNormAccumulators] = {};
    const std::size_t whole = columns / kNormAccumulators * kNormAccumulators;
    for (std::size_t step = 0; step < whole; step += Steps<V>::elements) {
        const std::size_t end = std::min(step + Steps<V>::elements, whole);
        for (std::size_t r = 0; r < rows_at_once; ++r) {
            typename V::F64Pair accumulator[vectors];
            for (std::size_t v = 0; v < vectors; ++v) accumulator[v] = V::load(sums[r] + v * V::lanes);
            for (std::size_t j = step; j < end; j += kNormAccumulators) {
                Steps<V>::fetch_ahead(rows[r] + j);
                add_squares<V>(rows[r] + j, accumulator);
            }
            for (std::size_t v = 0; v < vectors; ++v) V::store(sums[r] + v * V::lanes, accumulator[v]);
        }
    }
    for (std::size_t r = 0; r < rows_at_once; ++r) {
        for (std::size_t j = whole; j < columns; ++j) sums[r][j - whole] += static_cast<double>(rows[r][j]) * static_cast<double>(rows[r][j]);
        squares[r] = joined_accumulators(sums[r]);
    }
}

// squares[i] is that of rows[i], in the order of docs/format.md section 4.
template <class V>
void sums_of_squares(const float* const* rows, std::size_t count, std::size_t columns, double* squares, std::size_t bytes_ahead) {
    if (Steps<V>::fit(columns, bytes_ahead) || (bytes_ahead == 0 && columns >= Steps<V>::long_row)) {
        return for_some_rows<8>(count, [&]<std::size_t n>(std::size_t first) HUSHVEC_INLINE_LAMBDA {
            square_rows_in_steps<V, n>(rows + first, columns, squares + first);
        });
    }
    constexpr std::size_t at_once = Steps<V>::needed ? 1 : 4;
    for_some_rows<at_once>(count, [&]<std::size_t n>(std::size_t first) HUSHVEC_INLINE_LAMBDA {
        square_some_rows<V, n>(rows, count, columns, first, squares, NextRows(bytes_ahead));
    });
}

// ---- sums ----

template <class V, std::size_t rows_at_once>
HUSHVEC_INLINE void add_some_rows(const RowsToAdd& run, std::size_t first) {
    const SomeRows<rows_at_once> some(run.rows, run.count, run.columns, first);
    const NextRows next(run.bytes_ahead);
    const bool in_steps = Steps<V>::fit(run.columns, run.bytes_ahead);
    typename V::F32 q[rows_at_once];
    for (std::size_t r = 0; r < rows_at_once; ++r) q[r] = V::set(run.q[first + r]);
    const std::size_t whole = run.columns / kNormAccumulators * kNormAccumulators;
    for (std::size_t j = 0; j < whole; j += kNormAccumulators) {
        if (in_steps) {
            for (std::size_t r = 0; r < rows_at_once; ++r) Steps<V>::fetch_ahead(some.at[r] + j);
        } else if (next.any()) {
            for (std::size_t r = 0; r < rows_at_once; ++r) next.fetch(some.at[r] + j, NextRows::second_lines);
        } else {
            some.template fetch_ahead<kNormAccumulators>(j);
            some.template fetch_next<kNormAccumulators>(j);
        }
        for (std::size_t at = j; at < j + kNormAccumulators; at += V::lanes) {
            auto sum = V::load(run.sums + at);
            for (std::size_t r = 0; r < rows_at_once; ++r) sum = V::add(sum, V::to_integer(V::mul(V::load(some.at[r] + at), q[r])));
            V::store(run.sums + at, sum);
        }
    }
    for (std::size_t r = 0; r < rows_at_once; ++r) {
        for (std::size_t j = whole; j < run.columns; ++j) {
            run.sums[j] += static_cast<std::uint32_t>(static_cast<std::int32_t>(some.at[r][j] * run.q[first + r]));
        }
    }
}

HUSHVEC_INLINE float limited(float x) { return !(x <= kElementLimit) ? kElementLimit : (x < -kElementLimit ? -kElementLimit : x); }

// Elements [begin, end) of some rows that registers hold the accumulators of.
template <class V, std::size_t rows_at_once, class Fetch>
HUSHVEC_INLINE void add_and_square_elements(const float* const* rows, const float* scales, std::size_t begin, std::size_t end, std::uint32_t* sums,
                                            float (*squares)[kNormAccumulators], Fetch fetch) {
    constexpr std::size_t vectors = kNormAccumulators / V::lanes;
    const auto limit = V::set(kElementLimit);
    typename V::F32 q[rows_at_once], of_rows[rows_at_once][vectors];
    for (std::size_t r = 0; r < rows_at_once; ++r) {
        q[r] = V::set(scales[r]);
        for (std::size_t v = 0; v < vectors; ++v) of_rows[r][v] = V::load(squares[r] + v * V::lanes);
    }
    for (std::size_t j = begin; j < end; j += kNormAccumulators) {
        fetch(j);
        for (std::size_t v = 0; v < vectors; ++v) {
            const std::size_t at = j + v * V::lanes;
            auto sum = V::load(sums + at);
            for (std::size_t r = 0; r < rows_at_once; ++r) {
                const auto x = V::mul(V::load(rows[r] + at), q[r]);
                of_rows[r][v] = V::add(of_rows[r][v], V::mul(x, x));
                sum = V::add(sum, V::to_integer(V::limit_magnitude(x, limit)));
            }
            V::store(sums + at, sum);
        }
    }
    for (std::size_t r = 0; r < rows_at_once; ++r) {
        for (std::size_t v = 0; v < vectors; ++v) V::store(squares[r] + v * V::lanes, of_rows[r][v]);
    }
}

template <class V, std::size_t rows_at_once>
HUSHVEC_INLINE void add_and_square_some_rows(const RowsToAdd& run, std::size_t first) {
    const SomeRows<rows_at_once> some(run.rows, run.count, run.columns, first);
    alignas(kCacheLine) float squares[rows_at_once][kNormAccumulators] = {};
    const std::size_t whole = run.columns / kNormAccumulators * kNormAccumulators;
    if constexpr (Steps<V>::needed) {
        constexpr std::size_t in_registers = rows_at_once < 2 ? 1 : 2;
        for (std::size_t step = 0; step < whole; step += Steps<V>::elements) {
            const std::size_t end = std::min(step + Steps<V>::elements, whole);
            for (std::size_t r = 0; r < rows_at_once; r += in_registers) {
                const auto fetch = [&](std::size_t j) HUSHVEC_INLINE_LAMBDA {
                    for (std::size_t k = r; k < r + in_registers; ++k) Steps<V>::fetch_ahead(some.at[k] + j);
                };
                add_and_square_elements<V, in_registers>(some.at + r, run.q + first + r, step, end, run.sums, squares + r, fetch);
            }
        }
    } else {
        const auto fetch = [&](std::size_t j) HUSHVEC_INLINE_LAMBDA {
            some.template fetch_ahead<kNormAccumulators>(j);
            some.template fetch_next<kNormAccumulators>(j);
        };
        add_and_square_elements<V, rows_at_once>(some.at, run.q + first, 0, whole, run.sums, squares, fetch);
    }

    for (std::size_t r = 0; r < rows_at_once; ++r) {
        for (std::size_t j = whole; j < run.columns; ++j) {
            const float x = some.at[r][j] * run.q[first + r];
            squares[r][j - whole] += x * x;
            run.sums[j] += static_cast<std::uint32_t>(static_cast<std::int32_t>(limited(x)));
        }
        run.squares[first + r] = static_cast<double>(joined_accumulators(squares[r]));
    }
}

template <class V>
void add_rows(const RowsToAdd& run) {
    for_some_rows<8>(run.count, [&]<std::size_t n>(std::size_t first) HUSHVEC_INLINE_LAMBDA {
        run.squares != nullptr ? add_and_square_some_rows<V, n>(run, first) : add_some_rows<V, n>(run, first);
    });
}

// What integers do to the sums: store them, whatever lies there, add them or take them off.
enum class Put {
    store,
    add,
    subtract,
};

// Integers as lanes of what the sums are.
template <class V>
HUSHVEC_INLINE typename V::U32 load_terms(const std::uint32_t* integers, const std::uint32_t*) { return V::load(integers); }
template <class V>
HUSHVEC_INLINE typename V::F64Pair load_terms(const std::uint32_t* integers, const double*) { return V::widen_signed(V::load(integers)); }

// Integers in two's complement; count is a multiple of 16.
template <class V, class Sum>
void put_integers(const std::uint32_t* integers, std::size_t count, Put put, Sum* sums) {
    if (put == Put::store) {
        for (std::size_t j = 0; j < count; j += V::lanes) V::store(sums + j, load_terms<V>(integers + j, sums));
    } else if (put == Put::add) {
        for (std::size_t j = 0; j < count; j += V::lanes) V::store(sums + j, V::add(V::load(sums + j), load_terms<V>(integers + j, sums)));
    } else {
        for (std::size_t j = 0; j < count; j += V::lanes) V::store(sums + j, V::sub(V::load(sums + j), load_terms<V>(integers + j, sums)));
    }
}

}  // namespace hushvec
