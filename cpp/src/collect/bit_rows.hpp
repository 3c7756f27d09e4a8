// How often each bit is 1 in many rows: 16 rows at a time through a tree of carry-save adders into counters that lie bit-sliced.
//
// Plane p holds bit p of the counters of all columns, so that a counter grows by bitwise operations on whole vectors: 15 adders for
// 16 rows, and one carry on its way up. Harley and Seal's count, turned by a right angle; Mula, Kurz, Lemire, "Faster population
// counts using AVX2 instructions" (2018), Klarqvist, Mula, Lemire, "Efficient computation of positional population counts" (2021).
#pragma once

#include <cstddef>
#include <cstdint>

#include "lanes/inline.hpp"
#include "lanes/prefetch.hpp"

namespace hushvec {

inline constexpr std::size_t kRowsAtOnce = 16;
inline constexpr std::size_t kCountPlanes = 16;
inline constexpr std::size_t kCountedWords = 16;   // words of a row whose counters lie together: one cache line of it
inline constexpr std::size_t kMostCountedRows = (std::size_t{1} << kCountPlanes) - kRowsAtOnce;   // before the planes overflow

// a + b + c = sum + 2 carry in every bit. The sum replaces a.
template <class V>
HUSHVEC_INLINE typename V::U32 carry_save(typename V::U32& a, typename V::U32 b, typename V::U32 c) {
    const auto a_xor_b = V::bit_xor(a, b);
    const auto carry = V::bit_xor(V::bit_and(a, b), V::bit_and(a_xor_b, c));
    a = V::bit_xor(a_xor_b, c);
    return carry;
}

// Adds 16 rows of `chunks` times kCountedWords words. Plane p of chunk c begins at planes + (c * kCountPlanes + p) * kCountedWords.
// Each row is fetched bytes_ahead of its use; 0 where it is at hand.
template <class V>
void add_bit_rows(const std::uint32_t* const* rows, std::size_t chunks, std::size_t bytes_ahead, std::uint32_t* planes) {
    using U32 = typename V::U32;
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
        if (bytes_ahead > 0) {
            for (std::size_t i = 0; i < kRowsAtOnce; ++i) prefetch_to_read(rows[i] + chunk * kCountedWords, bytes_ahead);
        }
        for (std::size_t lane = 0; lane < kCountedWords; lane += V::lanes) {
            const std::size_t column = chunk * kCountedWords + lane;
            std::uint32_t* const counters = planes + chunk * kCountPlanes * kCountedWords + lane;
            const auto plane = [&](std::size_t p) { return counters + p * kCountedWords; };
            const auto row = [&](std::size_t i) HUSHVEC_INLINE_LAMBDA { return V::load(rows[i] + column); };

            U32 ones = V::load(plane(0)), twos = V::load(plane(1)), fours = V::load(plane(2)), eights = V::load(plane(3));
            const auto four_rows = [&](std::size_t i) HUSHVEC_INLINE_LAMBDA {   // returns their fours
                const U32 first = carry_save<V>(ones, row(i), row(i + 1));
                const U32 second = carry_save<V>(ones, row(i + 2), row(i + 3));
                return carry_save<V>(twos, first, second);
            };
            const auto eight_rows = [&](std::size_t i) HUSHVEC_INLINE_LAMBDA {
                const U32 first = four_rows(i);
                const U32 second = four_rows(i + 4);
                return carry_save<V>(fours, first, second);
            };
            const U32 first = eight_rows(0);
            const U32 second = eight_rows(8);
            U32 carry = carry_save<V>(eights, first, second);
            V::store(plane(0), ones);
            V::store(plane(1), twos);
            V::store(plane(2), fours);
            V::store(plane(3), eights);
            for (std::size_t p = 4; p < kCountPlanes; ++p) {
                const U32 count = V::load(plane(p));
                V::store(plane(p), V::bit_xor(count, carry));
                carry = V::bit_and(count, carry);
            }
        }
    }
}

}  // namespace hushvec
