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

// Asks for memory that is read only after everything that is at work: into the second-level cache.
HUSHVEC_INLINE void fetch_for_later(const float* elements, std::size_t bytes_ahead) {
    __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(elements) + bytes_ahead), 0, 2);
}

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
        fetch_for_later(elements, bytes_ahead_ + half * kCacheLine);
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
            for (std::size_t byte = 0; byte < elements * sizeof(float); byte += kCacheLine) fetch_for_later(next_[r] + j, byte);
        }
    }

    const float* at[rows_at_once];

private:
    const float* next_[rows_at_once];
    std::size_t columns_;
};

// Calls some.operator()<n>(first) for all of `count` rows, `at_once` at a time and the last ones one by one.
template <std::size_t at_once, class Some>
HUSHVEC_INLINE void for_some_rows(std::size_t count, Some some) {
    std::size_t row = 0;
    for (; row + at_once <= count; row += at_once) some.template operator()<at_once>(row);
    for (; row < count; ++row) some.template operator()<1>(row);
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
        for (std::size_t r = 0; r < rows_at_once; ++r) {
            for (std::size_t v = 0; v < vectors; ++v) {
                const auto x = V::load_widened(some.at[r] + j + v * V::lanes);
                accumulator[r][v] = V::multiply_add(x, x, accumulator[r][v]);   // fused or not, the same: the product is exact
            }
        }
    }
    for (std::size_t r = 0; r < rows_at_once; ++r) {
        double sum[kNormAccumulators];
        for (std::size_t v = 0; v < vectors; ++v) V::store(sum + v * V::lanes, accumulator[r][v]);
        for (std::size_t j = whole; j < columns; ++j) sum[j - whole] += static_cast<double>(some.at[r][j]) * static_cast<double>(some.at[r][j]);
        squares[first + r] = joined_accumulators(sum);
    }
}

// squares[i] = sum_of_squares of rows[i], of `columns` elements each.
template <class V>
void sums_of_squares(const float* const* rows, std::size_t count, std::size_t columns, double* squares, std::size_t bytes_ahead) {
    constexpr std::size_t at_once = V::lanes == 16 ? 4 : 1;
    for_some_rows<at_once>(count, [&]<std::size_t n>(std::size_t first) HUSHVEC_INLINE_LAMBDA {
        square_some_rows<V, n>(rows, count, columns, first, squares, NextRows(bytes_ahead));
    });
}

// ---- sums ----

template <class V, std::size_t rows_at_once>
HUSHVEC_INLINE void add_some_rows(const RowsToAdd& run, std::size_t first) {
    const SomeRows<rows_at_once> some(run.rows, run.count, run.columns, first);
    const NextRows next(run.bytes_ahead);
    typename V::F32 q[rows_at_once];
    for (std::size_t r = 0; r < rows_at_once; ++r) q[r] = V::set(run.q[first + r]);
    const std::size_t whole = run.columns / kNormAccumulators * kNormAccumulators;
    for (std::size_t j = 0; j < whole; j += kNormAccumulators) {
        if (next.any()) {
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

template <class V, std::size_t rows_at_once>
HUSHVEC_INLINE void add_and_square_some_rows(const RowsToAdd& run, std::size_t first) {
    constexpr std::size_t vectors = kNormAccumulators / V::lanes;
    const SomeRows<rows_at_once> some(run.rows, run.count, run.columns, first);
    const auto limit = V::set(kElementLimit);
    typename V::F32 q[rows_at_once], squares[rows_at_once][vectors];
    for (std::size_t r = 0; r < rows_at_once; ++r) {
        q[r] = V::set(run.q[first + r]);
        for (auto& vector : squares[r]) vector = V::set(0.0f);
    }

    const std::size_t whole = run.columns / kNormAccumulators * kNormAccumulators;
    for (std::size_t j = 0; j < whole; j += kNormAccumulators) {
        some.template fetch_ahead<kNormAccumulators>(j);
        some.template fetch_next<kNormAccumulators>(j);
        for (std::size_t v = 0; v < vectors; ++v) {
            const std::size_t at = j + v * V::lanes;
            auto sum = V::load(run.sums + at);
            for (std::size_t r = 0; r < rows_at_once; ++r) {
                const auto x = V::mul(V::load(some.at[r] + at), q[r]);
                squares[r][v] = V::add(squares[r][v], V::mul(x, x));
                sum = V::add(sum, V::to_integer(V::limit_magnitude(x, limit)));
            }
            V::store(run.sums + at, sum);
        }
    }

    for (std::size_t r = 0; r < rows_at_once; ++r) {
        float sum[kNormAccumulators];
        for (std::size_t v = 0; v < vectors; ++v) V::store(sum + v * V::lanes, squares[r][v]);
        for (std::size_t j = whole; j < run.columns; ++j) {
            const float x = some.at[r][j] * run.q[first + r];
            sum[j - whole] += x * x;
            run.sums[j] += static_cast<std::uint32_t>(static_cast<std::int32_t>(limited(x)));
        }
        run.squares[first + r] = static_cast<double>(joined_accumulators(sum));
    }
}

template <class V>
void add_rows(const RowsToAdd& run) {
    constexpr std::size_t at_once = V::lanes == 16 ? 8 : 2;
    for_some_rows<at_once>(run.count, [&]<std::size_t n>(std::size_t first) HUSHVEC_INLINE_LAMBDA {
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
