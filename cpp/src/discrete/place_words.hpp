// The squares below a staircase, in lanes: which cell each word is in, or that one comparison does not say.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "lanes/inline.hpp"

namespace hushvec {

inline constexpr int kGuideBits = 12;
inline constexpr int kWithinBits = 32 - kGuideBits;
inline constexpr std::uint32_t kWithin = (std::uint32_t{1} << kWithinBits) - 1;

// Steps are numbered from the middle outwards: 0, -1, 1, -2, 2, ... from 0.
//
// Words by their top bits. An entry has, at its top, the step of the first of them, and below it the last one of that step; the others are
// of the next step. kOpen: it is not so. The lowest bits of a word are the number of its cell within the step.
struct WordGuide {
    static constexpr std::uint32_t kOpen = ~std::uint32_t{0} >> kWithinBits << kWithinBits;
    alignas(64) std::uint32_t entry[std::size_t{1} << kGuideBits];
};

// The integer of a cell, counted from that of 0, where a cell has 2^low_bits of them; `low` has its lowest bits at the top.
HUSHVEC_INLINE std::int64_t integer_of_cell(std::uint32_t cell, std::uint32_t low, int low_bits) {
    return std::int64_t{static_cast<std::int32_t>(cell)} * (std::int64_t{1} << low_bits) + static_cast<std::int64_t>(std::uint64_t{low} >> (32 - low_bits));
}

// The entry of each word. One by one, which the empty statement keeps compilers to: AVX2 takes longer to gather them.
inline void look_up(const WordGuide& guide, const std::uint32_t* words, std::size_t count, std::uint32_t* entries) {
    for (std::size_t i = 0; i < count; ++i) {
        std::uint32_t word = words[i];
#if defined(__GNUC__)
        asm("" : "+r"(word));
#endif
        entries[i] = guide.entry[word >> kWithinBits];
    }
}

// What an entry says of a word of the same top bits.
template <class V>
struct PlacedWord {
    typename V::U32 cell;   // in two's complement
    typename V::Mask is_open;
};

template <class V>
HUSHVEC_INLINE PlacedWord<V> place_word(int bits_of_cell, typename V::U32 word, typename V::U32 entry) {
    const auto within = V::set(kWithin), one = V::set(std::uint32_t{1}), zero = V::set(std::uint32_t{0});
    const auto cell = V::set((std::uint32_t{1} << bits_of_cell) - 1);
    const auto beyond = V::template shift_right<31>(V::sub(V::bit_and(entry, within), V::bit_and(word, within)));   // 1 if negative
    const auto step = V::add(V::template shift_right<kWithinBits>(entry), beyond);
    const auto place = V::bit_xor(V::template shift_right<1>(step), V::sub(zero, V::bit_and(step, one)));
    return {V::add(V::shift_left(place, V::set(static_cast<std::uint32_t>(bits_of_cell))), V::bit_and(word, cell)),
            V::greater(entry, V::set(WordGuide::kOpen - 1))};
}

// Entries become the cells of the words, in two's complement. Returns how many words are open, and lists their places. `count` is a multiple
// of V::lanes.
template <class V>
std::size_t place_words(int bits_of_cell, const std::uint32_t* words, std::size_t count, std::uint32_t* entries, std::uint32_t* open) {
    std::size_t listed = 0;
    for (std::size_t i = 0; i < count; i += V::lanes) {
        const auto placed = place_word<V>(bits_of_cell, V::load(words + i), V::load(entries + i));
        V::store(entries + i, placed.cell);
        if (V::any(placed.is_open)) [[unlikely]] {
            for (std::uint32_t lanes = V::bits(placed.is_open); lanes != 0; lanes &= lanes - 1) {
                open[listed++] = static_cast<std::uint32_t>(i) + static_cast<std::uint32_t>(std::countr_zero(lanes));
            }
        }
    }
    return listed;
}

}  // namespace hushvec
