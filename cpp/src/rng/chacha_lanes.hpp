// ChaCha over lanes: one block per lane, written once for every instruction set.
//
// After the rounds, lane l of vector w is word w of block `first + l`, so the sample layout of docs/format.md
// (sample = group * 256 + word * 16 + lane) needs neither a transpose nor a shuffle.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hushvec/keystream.hpp"
#include "lanes/inline.hpp"

namespace hushvec {

template <class V>
class ChaChaLanes {
    using U32 = typename V::U32;

public:
    HUSHVEC_INLINE explicit ChaChaLanes(const KeyStream& stream, std::uint64_t domain_id)
        : double_rounds_(rounds_of(stream.cipher) / 2), domain_(static_cast<std::uint32_t>(domain_id << 24)) {
        constexpr std::uint32_t constants[4] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
        for (std::size_t i = 0; i < 4; ++i) initial_[i] = constants[i];
        for (std::size_t i = 0; i < 8; ++i) initial_[4 + i] = stream.key[i];
        initial_[14] = static_cast<std::uint32_t>(stream.nonce);
        initial_[15] = static_cast<std::uint32_t>(stream.nonce >> 32);
        set_counter_high(domain_);
        first_column(2);
        first_column(3);
    }

    // Blocks first_block .. first_block + lanes - 1, which share the high counter word because groups are aligned.
    // Word w of lane l goes to words[w * word_stride + l].
    HUSHVEC_INLINE void blocks(std::uint64_t first_block, std::uint32_t* words, std::size_t word_stride) {
        blocks_at(first_block >> 32, V::add(V::set(static_cast<std::uint32_t>(first_block)), V::count_up()), words, word_stride);
    }

    // The same of blocks with this high half of their number and these low halves.
    HUSHVEC_INLINE void blocks_at(std::uint64_t number_high, U32 counter, std::uint32_t* words, std::size_t word_stride) {
        const std::uint32_t high = domain_ | static_cast<std::uint32_t>(number_high);
        if (high != initial_[13]) set_counter_high(high);

        U32 s0 = V::set(initial_[0]), s4 = V::set(initial_[4]), s8 = V::set(initial_[8]), s12 = counter;
        U32 s1 = V::set(after_column_[1]), s5 = V::set(after_column_[5]), s9 = V::set(after_column_[9]), s13 = V::set(after_column_[13]);
        U32 s2 = V::set(after_column_[2]), s6 = V::set(after_column_[6]), s10 = V::set(after_column_[10]), s14 = V::set(after_column_[14]);
        U32 s3 = V::set(after_column_[3]), s7 = V::set(after_column_[7]), s11 = V::set(after_column_[11]), s15 = V::set(after_column_[15]);

        quarter_round(s0, s4, s8, s12);   // the other three columns hold no counter: done once, in scalars
        diagonals(s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15);
        for (int round = 1; round < double_rounds_; ++round) {
            columns(s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15);
            diagonals(s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15);
        }

        const auto emit = [&](std::size_t word, U32 state, U32 start) HUSHVEC_INLINE_LAMBDA {
            V::store(words + word * word_stride, V::add(state, start));
        };
        emit(0, s0, V::set(initial_[0]));
        emit(1, s1, V::set(initial_[1]));
        emit(2, s2, V::set(initial_[2]));
        emit(3, s3, V::set(initial_[3]));
        emit(4, s4, V::set(initial_[4]));
        emit(5, s5, V::set(initial_[5]));
        emit(6, s6, V::set(initial_[6]));
        emit(7, s7, V::set(initial_[7]));
        emit(8, s8, V::set(initial_[8]));
        emit(9, s9, V::set(initial_[9]));
        emit(10, s10, V::set(initial_[10]));
        emit(11, s11, V::set(initial_[11]));
        emit(12, s12, counter);
        emit(13, s13, V::set(initial_[13]));
        emit(14, s14, V::set(initial_[14]));
        emit(15, s15, V::set(initial_[15]));
    }

    static constexpr std::size_t groups_at_once = 1;   // more would leave the first-level cache and gain nothing

    // The words of whole groups, in the order of their samples.
    HUSHVEC_INLINE void groups(std::uint64_t first, std::size_t count, std::uint32_t* words) {
        for (std::uint64_t group = first; group < first + count; ++group, words += kGroupSamples) {
            for (std::size_t offset = 0; offset < kGroupBlocks; offset += V::lanes) {
                blocks(group * kGroupBlocks + offset, words + offset, kGroupBlocks);
            }
        }
    }

    // Words of a domain that is laid out in groups, each by its number, that of the sample it makes.
    void at(const std::uint64_t* numbers, std::size_t count, std::uint32_t* out) {
        for (std::size_t done = 0; done < count;) {
            const std::uint64_t high = block_of(numbers[done]) >> 32;
            alignas(64) std::uint32_t low[V::lanes] = {}, words[kBlockWords * V::lanes];
            std::size_t here = 0;
            for (; here < V::lanes && done + here < count && block_of(numbers[done + here]) >> 32 == high; ++here) {
                low[here] = static_cast<std::uint32_t>(block_of(numbers[done + here]));
            }
            blocks_at(high, V::load(low), words, V::lanes);
            for (std::size_t i = 0; i < here; ++i, ++done) out[done] = words[word_of(numbers[done]) * V::lanes + i];
        }
    }

    // Where word `number` of a domain lies (docs/format.md section 2).
    static HUSHVEC_INLINE std::uint64_t block_of(std::uint64_t number) { return number / kGroupSamples * kGroupBlocks + number % kGroupBlocks; }
    static HUSHVEC_INLINE std::size_t word_of(std::uint64_t number) { return number % kGroupSamples / kGroupBlocks; }

private:
    // RFC 8439 section 2.1.
    static HUSHVEC_INLINE void quarter_round(U32& a, U32& b, U32& c, U32& d) {
        // clang-format off
        a = V::add(a, b); d = V::template rotate_left<16>(V::bit_xor(d, a));
        c = V::add(c, d); b = V::template rotate_left<12>(V::bit_xor(b, c));
        a = V::add(a, b); d = V::template rotate_left<8>(V::bit_xor(d, a));
        c = V::add(c, d); b = V::template rotate_left<7>(V::bit_xor(b, c));
        // clang-format on
    }

    // Four quarter rounds step by step side by side, so that neighbours in program order do not wait for each other.
    static HUSHVEC_INLINE void four_quarter_rounds(U32& a0, U32& b0, U32& c0, U32& d0, U32& a1, U32& b1, U32& c1, U32& d1,
                                                   U32& a2, U32& b2, U32& c2, U32& d2, U32& a3, U32& b3, U32& c3, U32& d3) {
        // clang-format off
        quarter_step<16>(a0, b0, d0); quarter_step<16>(a1, b1, d1); quarter_step<16>(a2, b2, d2); quarter_step<16>(a3, b3, d3);
        quarter_step<12>(c0, d0, b0); quarter_step<12>(c1, d1, b1); quarter_step<12>(c2, d2, b2); quarter_step<12>(c3, d3, b3);
        quarter_step<8>(a0, b0, d0); quarter_step<8>(a1, b1, d1); quarter_step<8>(a2, b2, d2); quarter_step<8>(a3, b3, d3);
        quarter_step<7>(c0, d0, b0); quarter_step<7>(c1, d1, b1); quarter_step<7>(c2, d2, b2); quarter_step<7>(c3, d3, b3);
        // clang-format on
    }
    template <int Bits>
    static HUSHVEC_INLINE void quarter_step(U32& sum, U32 addend, U32& rotated) {
        sum = V::add(sum, addend);
        rotated = V::template rotate_left<Bits>(V::bit_xor(rotated, sum));
    }

    static HUSHVEC_INLINE void columns(U32& s0, U32& s1, U32& s2, U32& s3, U32& s4, U32& s5, U32& s6, U32& s7,
                                       U32& s8, U32& s9, U32& s10, U32& s11, U32& s12, U32& s13, U32& s14, U32& s15) {
        four_quarter_rounds(s0, s4, s8, s12, s1, s5, s9, s13, s2, s6, s10, s14, s3, s7, s11, s15);
    }
    static HUSHVEC_INLINE void diagonals(U32& s0, U32& s1, U32& s2, U32& s3, U32& s4, U32& s5, U32& s6, U32& s7,
                                         U32& s8, U32& s9, U32& s10, U32& s11, U32& s12, U32& s13, U32& s14, U32& s15) {
        four_quarter_rounds(s0, s5, s10, s15, s1, s6, s11, s12, s2, s7, s8, s13, s3, s4, s9, s14);
    }

    HUSHVEC_DEVICE void set_counter_high(std::uint32_t high) {
        initial_[13] = high;
        first_column(1);
    }

    // The first column round of a column without the low counter word is the same for every block of a call.
    HUSHVEC_DEVICE void first_column(std::size_t column) {
        std::uint32_t a = initial_[column], b = initial_[4 + column], c = initial_[8 + column], d = initial_[12 + column];
        const auto rotate = [](std::uint32_t x, int n) { return (x << n) | (x >> (32 - n)); };
        // clang-format off
        a += b; d = rotate(d ^ a, 16);
        c += d; b = rotate(b ^ c, 12);
        a += b; d = rotate(d ^ a, 8);
        c += d; b = rotate(b ^ c, 7);
        // clang-format on
        after_column_[column] = a;
        after_column_[4 + column] = b;
        after_column_[8 + column] = c;
        after_column_[12 + column] = d;
    }

    int double_rounds_;
    std::uint32_t domain_;
    std::uint32_t initial_[16];
    std::uint32_t after_column_[16];
};

}  // namespace hushvec
