// Inner products of many rows with many rows.
//
//     s_l = sum of a_k b_k over k = l, l + 16, l + 32, ...   in the order of k, each step one multiply_add, from 0;  l = 0 .. 15
//     s_l + s_(l + 8), then + 4, + 2, + 1: halved as a tree
//
// in the elements' own dtype. Every pair of rows is summed so, whatever tile it falls into. AVX2, AVX-512 and NEON round a step once and
// give the same bits; the portable lanes round it twice. The result is within gamma_(n/16 + 4) sum |a_k b_k| of the exact one, or
// gamma_(n/8 + 4) for the portable lanes, where gamma_m = m u / (1 - m u) and u is the unit roundoff.
//
// Sixteen sums keep the fused multiply-adds of one pair independent of each other, which a row alone needs (one query over all
// documents), and make the rounding error a sixteenth of that of one long sum.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "lanes/inline.hpp"
#include "lanes/prefetch.hpp"

namespace hushvec {

inline constexpr std::size_t kPartialSums = 16;

// Rows of `columns` elements, strides in elements.
template <class Element>
struct ProductRun {
    const Element* a;
    std::size_t a_stride;
    std::size_t a_rows;
    const Element* b;
    std::size_t b_stride;
    std::size_t b_rows;
    std::size_t columns;
    Element* out;              // [a_rows, b_rows]
    std::size_t out_stride;
};

// Pairs in a tile: as many sums as there are registers for, beside the rows' own.
struct TileShape {
    std::size_t rows, columns;
};

template <class V, class Element>
constexpr TileShape tile_shape() {
#if defined(__aarch64__)
    constexpr std::size_t registers = 24;   // of 32
#else
    constexpr std::size_t registers = sizeof(typename V::F32) == 64 ? 16 : 12;   // of 32 and 16
#endif
    constexpr std::size_t pairs = registers * sizeof(typename V::F32) / (kPartialSums * sizeof(Element));
    if constexpr (pairs >= 16) return {4, 4};
    if constexpr (pairs >= 8) return {4, 2};
    if constexpr (pairs >= 6) return {3, 2};
    if constexpr (pairs >= 3) return {3, 1};
    return {1, 1};
}

// The sums of lanes of up to four vectors, each halved as a tree.
template <class V>
HUSHVEC_INLINE void sums_of_lanes(const typename V::F32 (&vectors)[4], float (&sums)[4]) { V::sums_of_lanes(vectors, sums); }
template <class V>
HUSHVEC_INLINE void sums_of_lanes(const typename V::F64Pair (&vectors)[4], double (&sums)[4]) {
    for (std::size_t i = 0; i < 4; ++i) {
        double lane[V::lanes];
        V::store(lane, vectors[i]);
        for (std::size_t half = V::lanes / 2; half > 0; half /= 2) {
            for (std::size_t l = 0; l < half; ++l) lane[l] += lane[l + half];
        }
        sums[i] = lane[0];
    }
}

// ahead: how many bytes on, memory is fetched while the rows of a are read; 0 for not at all.
template <class V, class Element, std::size_t rows, std::size_t columns, std::size_t ahead>
struct Tile {
    static constexpr std::size_t parts = kPartialSums / V::lanes;
    using Vector = decltype(V::load(static_cast<const Element*>(nullptr)));

    Vector sum[rows][columns][parts];

    HUSHVEC_INLINE Tile() {
        for (auto& row : sum)
            for (auto& pair : row)
                for (auto& part : pair) part = V::set(Element{0});
    }

    // The next kPartialSums columns.
    HUSHVEC_INLINE void add(const Element* const (&a)[rows], const Element* const (&b)[columns], std::size_t k) {
        for (std::size_t p = 0; p < parts; ++p) {
            Vector right[columns];
            for (std::size_t c = 0; c < columns; ++c) right[c] = V::load(b[c] + k + p * V::lanes);
            for (std::size_t r = 0; r < rows; ++r) {
                const Vector left = V::load(a[r] + k + p * V::lanes);
                for (std::size_t c = 0; c < columns; ++c) sum[r][c][p] = V::multiply_add(left, right[c], sum[r][c][p]);
            }
        }
        if constexpr (ahead > 0) {
            for (std::size_t r = 0; r < rows; ++r)
                for (std::size_t byte = 0; byte < kPartialSums * sizeof(Element); byte += kCacheLine) prefetch_to_read(a[r] + k, ahead + byte);
        }
    }

    // What is left of a row, with zeros behind it.
    HUSHVEC_INLINE void add_tail(const Element* const (&a)[rows], const Element* const (&b)[columns], std::size_t k, std::size_t left) {
        Element tails[rows + columns][kPartialSums] = {};
        const Element* a_tails[rows];
        const Element* b_tails[columns];
        for (std::size_t r = 0; r < rows; ++r) {
            std::memcpy(tails[r], a[r] + k, left * sizeof(Element));
            a_tails[r] = tails[r];
        }
        for (std::size_t c = 0; c < columns; ++c) {
            std::memcpy(tails[rows + c], b[c] + k, left * sizeof(Element));
            b_tails[c] = tails[rows + c];
        }
        add(a_tails, b_tails, 0);
    }

    HUSHVEC_INLINE void put(Element* out, std::size_t stride) {
        for (std::size_t half = parts / 2; half > 0; half /= 2) {
            for (auto& row : sum)
                for (auto& pair : row)
                    for (std::size_t p = 0; p < half; ++p) pair[p] = V::add(pair[p], pair[p + half]);
        }
        for (std::size_t first = 0; first < rows * columns; first += 4) {
            Vector four[4];
            for (std::size_t i = 0; i < 4; ++i) {
                const std::size_t pair = first + i < rows * columns ? first + i : first;
                four[i] = sum[pair / columns][pair % columns][0];
            }
            Element sums[4];
            sums_of_lanes<V>(four, sums);
            for (std::size_t pair = first; pair < first + 4 && pair < rows * columns; ++pair) {
                out[pair / columns * stride + pair % columns] = sums[pair - first];
            }
        }
    }
};

template <class V, class Element, std::size_t rows, std::size_t columns, std::size_t ahead>
HUSHVEC_INLINE void product_tile(const ProductRun<Element>& run, std::size_t i, std::size_t j) {
    const Element* a[rows];
    const Element* b[columns];
    for (std::size_t r = 0; r < rows; ++r) a[r] = run.a + (i + r) * run.a_stride;
    for (std::size_t c = 0; c < columns; ++c) b[c] = run.b + (j + c) * run.b_stride;
    Tile<V, Element, rows, columns, ahead> tile;
    const std::size_t whole = run.columns / kPartialSums * kPartialSums;
    for (std::size_t k = 0; k < whole; k += kPartialSums) tile.add(a, b, k);
    if (whole < run.columns) tile.add_tail(a, b, whole, run.columns - whole);
    tile.put(run.out + i * run.out_stride + j, run.out_stride);
}

// Some rows of a, in the first-level cache by then, with all of b. The first tile fetches the rows that come after them.
template <class V, class Element, std::size_t rows, std::size_t ahead>
HUSHVEC_INLINE void product_rows(const ProductRun<Element>& run, std::size_t i) {
    constexpr std::size_t step = tile_shape<V, Element>().columns;
    std::size_t j = 0;
    if (run.b_rows >= step) {
        product_tile<V, Element, rows, step, ahead>(run, i, j);
        for (j = step; j + step <= run.b_rows; j += step) product_tile<V, Element, rows, step, 0>(run, i, j);
    }
    for (; j < run.b_rows; ++j) product_tile<V, Element, rows, 1, 0>(run, i, j);
}

// With so few rows of b the time is that of reading a, which one row after the other takes half as long as four side by side:
// 100,000 x 384 with one row, AMD Zen 4, 5.2 and 12.2 ms (FAISS 8.7); with 8 rows 9.5 and 18.5; with 32 rows 64 and 39.
inline constexpr std::size_t kFewRows = 16;

template <class V, class Element>
void inner_products(const ProductRun<Element>& run) {
    constexpr std::size_t step = tile_shape<V, Element>().rows;
    constexpr std::size_t bytes_ahead = 8192;
    std::size_t i = 0;
    if (run.b_rows > kFewRows) {
        for (; i + step <= run.a_rows; i += step) product_rows<V, Element, step, bytes_ahead>(run, i);
    }
    for (; i < run.a_rows; ++i) product_rows<V, Element, 1, 0>(run, i);
}

}  // namespace hushvec
