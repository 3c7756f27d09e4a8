// Keys of rows that are released alone (docs/format.md section 10): BLAKE2b of place and bytes, a row in each lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "dispatch/kernels.hpp"
#include "lanes/inline.hpp"
#include "rng/blake2b_rounds.hpp"

namespace hushvec {

// 64-bit lanes in as many bytes as V's registers have.
template <std::size_t Bytes>
struct Lanes64;
template <>
struct Lanes64<16> {
    typedef std::uint64_t Word __attribute__((vector_size(16)));
};
template <>
struct Lanes64<32> {
    typedef std::uint64_t Word __attribute__((vector_size(32)));
};
template <>
struct Lanes64<64> {
    typedef std::uint64_t Word __attribute__((vector_size(64)));
};

// Bytes [first, first + 128) of place and row, cut off at their end and filled up with zeros.
HUSHVEC_INLINE void edge_block(const std::uint8_t* place, const std::byte* row, std::size_t row_bytes, std::size_t first,
                               std::uint64_t* words) {
    unsigned char block[blake2b::kBlockBytes] = {};
    const std::size_t from_place = first < kRowPlaceBytes ? kRowPlaceBytes - first : 0;
    const std::size_t row_begin = first + from_place - kRowPlaceBytes;
    const std::size_t room = blake2b::kBlockBytes - from_place, left = row_bytes - row_begin;
    std::memcpy(block, place + first, from_place);
    std::memcpy(block + from_place, row + row_begin, room < left ? room : left);
    std::memcpy(words, block, sizeof block);
}

// Lanes beyond the last row repeat it.
template <class V>
void row_keys(const RowKeyRun& run) {
    using Word = typename Lanes64<sizeof(typename V::U32)>::Word;
    constexpr std::size_t lanes = sizeof(Word) / sizeof(std::uint64_t);
    const std::size_t total = kRowPlaceBytes + run.row_bytes;
    for (std::size_t first = 0; first < run.rows; first += lanes) {
        Word h[8];
        for (std::size_t i = 0; i < 8; ++i) h[i] = Word{} + run.key_state[i];
        for (std::size_t begin = 0; begin < total; begin += blake2b::kBlockBytes) {
            const std::size_t end = begin + blake2b::kBlockBytes;
            Word m[16];
            for (std::size_t lane = 0; lane < lanes; ++lane) {
                const std::size_t row = first + lane < run.rows ? first + lane : run.rows - 1;
                const std::uint8_t* place = run.places + row * kRowPlaceBytes;
                const std::byte* bytes = run.first_row + row * run.row_bytes;
                std::uint64_t words[16];
                if (begin == 0 || end > total) {
                    edge_block(place, bytes, run.row_bytes, begin, words);
                } else {
                    std::memcpy(words, bytes + begin - kRowPlaceBytes, sizeof words);
                }
                for (std::size_t i = 0; i < 16; ++i) m[i][lane] = words[i];
            }
            const bool last = end >= total;
            blake2b::compress(h, m, blake2b::kBlockBytes + (last ? total : end), last);
        }
        for (std::size_t lane = 0; lane < lanes && first + lane < run.rows; ++lane) {
            for (std::size_t i = 0; i < 4; ++i) {
                run.keys[first + lane][2 * i] = static_cast<std::uint32_t>(h[i][lane]);
                run.keys[first + lane][2 * i + 1] = static_cast<std::uint32_t>(h[i][lane] >> 32);
            }
        }
    }
}

}  // namespace hushvec
