// The nearest of many public rows: for each row the code with the largest inner product, of equal ones the first.
//
// A product is summed as cpp/src/products/product_kernels.hpp says, with a rounding a step, so the scores have the bits of AVX2, AVX-512 and
// NEON, and the code of a row is the one that these find: lane l of half a warp is partial sum l, and holds those of a tile of rows and
// codes. Halves with the same codes and other rows share a block, so that what one reads lies in the cache for the others.
#pragma once

#include <cmath>

#include "device/element.hpp"
#include "device/team.hpp"
#include "device/thread_lane.hpp"

namespace hushvec::cuda {

inline constexpr unsigned kNearestThreads = 128;
inline constexpr unsigned kPartialLanes = 16;
inline constexpr unsigned kNearestHalfWarps = kNearestThreads / kPartialLanes;
inline constexpr unsigned kNearestRows = 8;    // of half a warp
inline constexpr unsigned kNearestCodes = 8;   // of half a warp at a time
inline constexpr unsigned kMostRowGroups = 4;

inline constexpr std::uint32_t kNoCode = ~std::uint32_t{0};

struct Scored {
    float score;
    std::uint32_t code;   // kNoCode: none yet

    // As numpy's argmax has it: NaN is above all numbers, and of equal scores the first wins.
    HUSHVEC_INLINE bool beats(const Scored& other) const {
        if (other.code == kNoCode || code == kNoCode) return other.code == kNoCode;
        const bool is_nan = std::isnan(score), other_is_nan = std::isnan(other.score);
        if (is_nan != other_is_nan) return is_nan;
        if (is_nan || score == other.score) return code < other.code;
        return score > other.score;
    }
};

// Shared by a block. Strides keep the lanes of a warp in different banks: when they write, and when they compare with all row groups.
struct NearestMemory {
    static constexpr unsigned kPairStride = kPartialLanes + 1;
    static constexpr unsigned kRowStride = kNearestCodes * kPairStride + 4;
    static constexpr unsigned kHalfWarpStride = kNearestRows * kRowStride + kPartialLanes;

    float partial[kNearestHalfWarps * kHalfWarpStride];
    Scored best[kNearestThreads];

    HUSHVEC_INLINE float* sums(unsigned half_warp, unsigned row, unsigned code) {
        return partial + half_warp * kHalfWarpStride + row * kRowStride + code * kPairStride;
    }
};

template <class Stored>
struct NearestBody {
    const Stored* x;      // [rows, columns]
    const float* codes;   // [count, columns]
    std::size_t rows;
    std::size_t count;    // below kNoCode
    std::size_t columns;
    std::int32_t* nearest;
    unsigned row_groups;   // of a block: a power of two up to kMostRowGroups

    HUSHVEC_INLINE unsigned rows_of_block() const { return row_groups * kNearestRows; }

    template <class Team>
    HUSHVEC_INLINE void run(std::size_t block, NearestMemory& memory, const Team& team) const {
        const std::size_t first_row = block * rows_of_block();
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA { memory.best[thread] = {0, kNoCode}; });
        for (std::size_t first_code = 0; first_code < count; first_code += codes_at_once()) {
            team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
                const unsigned half_warp = thread / kPartialLanes;
                const std::size_t row = first_row + half_warp % row_groups * kNearestRows;
                add_up(row, first_code + half_warp / row_groups * kNearestCodes, thread % kPartialLanes, memory, half_warp);
            });
            team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA { compare(first_code, memory, thread); });
        }
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            if (thread >= rows_of_block() || first_row + thread >= rows) return;
            Scored best = memory.best[thread * threads_of_row()];
            for (unsigned i = 1; i < threads_of_row(); ++i) {
                const Scored& other = memory.best[thread * threads_of_row() + i];
                if (other.beats(best)) best = other;
            }
            nearest[first_row + thread] = static_cast<std::int32_t>(best.code);
        });
    }

private:
    HUSHVEC_INLINE unsigned codes_at_once() const { return kNearestHalfWarps / row_groups * kNearestCodes; }
    // When scores are compared.
    HUSHVEC_INLINE unsigned threads_of_row() const { return kNearestThreads / rows_of_block(); }

    static HUSHVEC_INLINE std::size_t at_most(std::size_t i, std::size_t last) { return i < last ? i : last; }

    // Rows and codes behind the last are the last again; nobody looks at their sums.
    HUSHVEC_INLINE void add_up(std::size_t first_row, std::size_t first_code, unsigned lane, NearestMemory& memory, unsigned half_warp) const {
        if (first_code >= count) return;
        const Stored* row[kNearestRows];
        const float* code[kNearestCodes];
        HUSHVEC_UNROLL
        for (unsigned r = 0; r < kNearestRows; ++r) row[r] = x + at_most(first_row + r, rows - 1) * columns;
        HUSHVEC_UNROLL
        for (unsigned c = 0; c < kNearestCodes; ++c) code[c] = codes + at_most(first_code + c, count - 1) * columns;
        float sum[kNearestRows][kNearestCodes] = {};
        std::size_t k = lane;
        HUSHVEC_UNROLL_BY(1)
        for (; k < columns; k += kPartialLanes) {
            float right[kNearestCodes];
            HUSHVEC_UNROLL
            for (unsigned c = 0; c < kNearestCodes; ++c) right[c] = code[c][k];
            HUSHVEC_UNROLL
            for (unsigned r = 0; r < kNearestRows; ++r) {
                const float left = widened(row[r][k]);
                HUSHVEC_UNROLL
                for (unsigned c = 0; c < kNearestCodes; ++c) sum[r][c] = Thread::multiply_add(left, right[c], sum[r][c]);
            }
        }
        HUSHVEC_UNROLL
        for (unsigned r = 0; r < kNearestRows; ++r) {
            HUSHVEC_UNROLL
            for (unsigned c = 0; c < kNearestCodes; ++c) memory.sums(half_warp, r, c)[lane] = sum[r][c];
        }
    }

    // A row's threads take turns at the codes.
    HUSHVEC_INLINE void compare(std::size_t first_code, NearestMemory& memory, unsigned thread) const {
        const unsigned row = thread / threads_of_row();
        Scored best = memory.best[thread];
        for (unsigned i = thread % threads_of_row(); i < codes_at_once() && first_code + i < count; i += threads_of_row()) {
            const unsigned half_warp = row / kNearestRows + i / kNearestCodes * row_groups;
            const float* const partial = memory.sums(half_warp, row % kNearestRows, i % kNearestCodes);
            const Scored scored = {halved(partial), static_cast<std::uint32_t>(first_code + i)};
            if (scored.beats(best)) best = scored;
        }
        memory.best[thread] = best;
    }

    static HUSHVEC_INLINE float halved(const float* partial) {
        float sum[kPartialLanes];
        HUSHVEC_UNROLL
        for (unsigned l = 0; l < kPartialLanes; ++l) sum[l] = partial[l];
        HUSHVEC_UNROLL
        for (unsigned half = kPartialLanes / 2; half > 0; half /= 2) {
            HUSHVEC_UNROLL
            for (unsigned l = 0; l < half; ++l) sum[l] += sum[l + half];
        }
        return sum[0];
    }
};

}  // namespace hushvec::cuda
