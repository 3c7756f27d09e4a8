// Adds scaled rows to their sum, whole units of the sum at a time (docs/format.md section 7).
//
// V = trunc(x q) is an integer of at most 2^25, so sums of it are exact in float64 and in any order. Several rows are read side by side:
// more streams keep more of memory's requests in flight, and the sum is loaded and stored once for all of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "clip/row_kernels.hpp"
#include "lanes/inline.hpp"
#include "lanes/prefetch.hpp"

namespace hushvec {

// An element of a row whose norm is not yet known is cut to this, so that int32 holds the sum of kRowsInOneSum of them. Only a row
// whose scale is wrong has a larger one: a row that keeps its scale is at most 2^25 (1 - 2^-16) units long.
inline constexpr float kElementLimit = 0x1p25f - 2;
inline constexpr std::size_t kRowsInOneSum = 64;
static_assert(double{kElementLimit} * kRowsInOneSum < 0x1p31);

// sums[j] += trunc(x_j q) for each row; |x_j q| <= 2^25.
struct RowsToAdd {
    const float* const* rows;
    const float* q;
    std::size_t count;
    std::size_t columns;
    double* sums;
};

// sums[j] += trunc(x_j q), cut to kElementLimit, for at most kRowsInOneSum rows; squares[i] = the sum of (x_j q)^2, in float32 in the
// order of docs/format.md section 4.
struct RowsToAddAndSquare {
    const float* const* rows;
    const float* q;
    std::size_t count;
    std::size_t columns;
    std::uint32_t* sums;   // two's complement
    double* squares;
};

// How far ahead of use rows are fetched; towards the end of a run, the beginning of the rows that come next. [64, 4,194,304] on Intel Sapphire
// Rapids class, one thread, where reading alone takes 0.070 s: 4 rows side by side 0.088 s, 8 rows 0.078 s, and with the next rows 0.074 s.
inline constexpr std::size_t kElementsAhead = 256;

// Rows first .. first + rows_at_once - 1 of a run, and the rows that are read after them: those that follow, or the first ones again in
// the columns behind.
template <class V, std::size_t rows_at_once>
struct SomeRows {
    template <class Run>
    HUSHVEC_INLINE SomeRows(const Run& run, std::size_t first) {
        for (std::size_t r = 0; r < rows_at_once; ++r) {
            const std::size_t after = first + rows_at_once + r;
            at[r] = run.rows[first + r];
            next[r] = after < run.count ? run.rows[after] : run.rows[(after - run.count) % run.count] + run.columns;
            q[r] = V::set(run.q[first + r]);
        }
    }

    // What is `elements` long and kElementsAhead of element j, in a run of `columns`.
    template <std::size_t elements>
    HUSHVEC_INLINE void fetch_ahead(std::size_t j, std::size_t columns) const {
        const bool in_run = j + kElementsAhead < columns;
        for (std::size_t r = 0; r < rows_at_once; ++r) {
            const float* ahead = in_run ? at[r] + j + kElementsAhead : next[r] + (j + kElementsAhead - columns);
            for (std::size_t byte = 0; byte < elements * sizeof(float); byte += kCacheLine) prefetch_to_read(ahead, byte);
        }
    }

    const float* at[rows_at_once];
    const float* next[rows_at_once];
    typename V::F32 q[rows_at_once];
};

template <class V, std::size_t rows_at_once>
HUSHVEC_INLINE void add_some_rows(const RowsToAdd& run, std::size_t first) {
    const SomeRows<V, rows_at_once> rows(run, first);
    const std::size_t whole = run.columns / kNormAccumulators * kNormAccumulators;
    for (std::size_t j = 0; j < whole; j += kNormAccumulators) {
        rows.template fetch_ahead<kNormAccumulators>(j, run.columns);
        for (std::size_t at = j; at < j + kNormAccumulators; at += V::lanes) {
            auto sum = V::load(run.sums + at);
            for (std::size_t r = 0; r < rows_at_once; ++r) {
                sum = V::add(sum, V::widen_signed(V::to_integer(V::mul(V::load(rows.at[r] + at), rows.q[r]))));
            }
            V::store(run.sums + at, sum);
        }
    }
    for (std::size_t j = whole; j < run.columns; ++j) {
        for (std::size_t r = 0; r < rows_at_once; ++r) {
            run.sums[j] += static_cast<double>(static_cast<std::int32_t>(rows.at[r][j] * run.q[first + r]));
        }
    }
}

template <class V>
void add_rows(const RowsToAdd& run) {
    constexpr std::size_t at_once = V::lanes == 16 ? 8 : 2;
    std::size_t row = 0;
    for (; row + at_once <= run.count; row += at_once) add_some_rows<V, at_once>(run, row);
    for (; row < run.count; ++row) add_some_rows<V, 1>(run, row);
}

HUSHVEC_INLINE float limited(float x) { return !(x <= kElementLimit) ? kElementLimit : x < -kElementLimit ? -kElementLimit : x; }

template <class V, std::size_t rows_at_once>
HUSHVEC_INLINE void add_and_square_some_rows(const RowsToAddAndSquare& run, std::size_t first) {
    constexpr std::size_t vectors = kNormAccumulators / V::lanes;
    const SomeRows<V, rows_at_once> rows(run, first);
    const auto limit = V::set(kElementLimit);
    typename V::F32 squares[rows_at_once][vectors];
    for (auto& row : squares) {
        for (auto& vector : row) vector = V::set(0.0f);
    }

    const std::size_t whole = run.columns / kNormAccumulators * kNormAccumulators;
    for (std::size_t j = 0; j < whole; j += kNormAccumulators) {
        rows.template fetch_ahead<kNormAccumulators>(j, run.columns);
        for (std::size_t v = 0; v < vectors; ++v) {
            const std::size_t at = j + v * V::lanes;
            auto sum = V::load(run.sums + at);
            for (std::size_t r = 0; r < rows_at_once; ++r) {
                const auto x = V::mul(V::load(rows.at[r] + at), rows.q[r]);
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
            const float x = rows.at[r][j] * run.q[first + r];
            sum[j - whole] += x * x;
            run.sums[j] += static_cast<std::uint32_t>(static_cast<std::int32_t>(limited(x)));
        }
        for (std::size_t half = kNormAccumulators / 2; half > 0; half /= 2) {
            for (std::size_t k = 0; k < half; ++k) sum[k] += sum[k + half];
        }
        run.squares[first + r] = static_cast<double>(sum[0]);
    }
}

// What integers do to the sums: store them, whatever lies there, add them or take them off.
enum class Put { store, add, subtract };

// Integers in two's complement; count is a multiple of 16.
template <class V>
void put_integers(const std::uint32_t* integers, std::size_t count, Put put, double* sums) {
    if (put == Put::store) {
        for (std::size_t j = 0; j < count; j += V::lanes) V::store(sums + j, V::widen_signed(V::load(integers + j)));
    } else if (put == Put::add) {
        for (std::size_t j = 0; j < count; j += V::lanes) V::store(sums + j, V::add(V::load(sums + j), V::widen_signed(V::load(integers + j))));
    } else {
        for (std::size_t j = 0; j < count; j += V::lanes) V::store(sums + j, V::sub(V::load(sums + j), V::widen_signed(V::load(integers + j))));
    }
}

template <class V>
void add_rows_and_squares(const RowsToAddAndSquare& run) {
    constexpr std::size_t at_once = V::lanes == 16 ? 8 : 2;
    std::size_t row = 0;
    for (; row + at_once <= run.count; row += at_once) add_and_square_some_rows<V, at_once>(run, row);
    for (; row < run.count; ++row) add_and_square_some_rows<V, 1>(run, row);
}

}  // namespace hushvec
