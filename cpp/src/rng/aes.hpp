// AES-256 over lanes, written once for every instruction set (FIPS 197), and its counter mode (SP 800-38A section 6.5).
//
// A lane type L has L::blocks blocks of 16 bytes in one value of L::Blocks; counter mode works on L::at_once such values side by
// side, so that neighbours in program order do not wait for each other.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hushvec/keystream.hpp"
#include "lanes/aes/kernels.hpp"
#include "lanes/inline.hpp"

namespace hushvec {

// FIPS 197 section 5.2 for Count keys of eight words. Words are little-endian, so byte 0 of the standard is the lowest here. Each word
// waits for the one before it, so keys side by side take little longer than one.
template <class L, std::size_t Count>
HUSHVEC_INLINE void expand_side_by_side(const AesKey* keys, AesRoundKeys* const* round_keys) {
    std::uint32_t last[Count], round_constant = 1;
    for (std::size_t k = 0; k < Count; ++k) {
        for (std::size_t i = 0; i < kAesKeyWords; ++i) round_keys[k]->words[i] = keys[k][i];
        last[k] = keys[k][kAesKeyWords - 1];
    }
    for (std::size_t i = kAesKeyWords; i < kAesScheduleWords; ++i) {
        for (std::size_t k = 0; k < Count; ++k) {
            if (i % kAesKeyWords == 0) {
                last[k] = L::sub_word(std::rotr(last[k], 8)) ^ round_constant;
            } else if (i % kAesKeyWords == 4) {
                last[k] = L::sub_word(last[k]);
            }
            last[k] ^= round_keys[k]->words[i - kAesKeyWords];
            round_keys[k]->words[i] = last[k];
        }
        if (i % kAesKeyWords == 0) round_constant <<= 1;
    }
}

template <class L>
void expand_aes_keys(const AesKey* keys, std::size_t count, AesRoundKeys* const* round_keys) {
    constexpr std::size_t kAtOnce = 4;
    std::size_t first = 0;
    for (; first + kAtOnce <= count; first += kAtOnce) expand_side_by_side<L, kAtOnce>(keys + first, round_keys + first);
    for (; first < count; ++first) expand_side_by_side<L, 1>(keys + first, round_keys + first);
}

// FIPS 197 section 5.1, from the state after the first AddRoundKey.
template <class L, std::size_t Count>
HUSHVEC_INLINE void aes_rounds(const typename L::Schedule& schedule, typename L::Blocks (&state)[Count]) {
    for (std::size_t round = 1; round < kAesRounds; ++round) {
        const auto key = schedule[round];
        for (std::size_t i = 0; i < Count; ++i) state[i] = L::round(state[i], key);
    }
    const auto key = schedule[kAesRounds];
    for (std::size_t i = 0; i < Count; ++i) state[i] = L::last_round(state[i], key);
}

template <class L>
HUSHVEC_INLINE void encrypt_aes_register(const typename L::Schedule& schedule, const AesBlock* in, AesBlock* out) {
    typename L::Blocks state[1] = {L::bit_xor(L::load(in), L::same(schedule[0]))};
    aes_rounds<L>(schedule, state);
    L::store(out, state[0]);
}

template <class L>
void encrypt_aes_blocks(const AesRoundKeys& keys, const AesBlock* in, std::size_t count, AesBlock* out) {
    const typename L::Schedule schedule(keys);
    std::size_t first = 0;
    for (; first + L::blocks <= count; first += L::blocks) encrypt_aes_register<L>(schedule, in + first, out + first);
    if (first == count) return;
    AesBlock rest[L::blocks] = {};
    std::memcpy(rest, in + first, (count - first) * sizeof(AesBlock));
    encrypt_aes_register<L>(schedule, rest, rest);
    std::memcpy(out + first, rest, (count - first) * sizeof(AesBlock));
}

// The counter blocks of one group differ in the low six bits of their last byte alone.
struct AesCountersOfGroup {
    alignas(64) AesBlock blocks[kAesGroupBlocks];

    constexpr AesCountersOfGroup() : blocks{} {
        for (std::uint32_t j = 0; j < kAesGroupBlocks; ++j) blocks[j].words[3] = j << 24;
    }
};

template <class L>
void aes_keystream(const AesRoundKeys& keys, std::uint64_t domain_id, std::uint64_t first_group, std::size_t groups, std::uint32_t* words) {
    static constexpr AesCountersOfGroup counters;
    constexpr std::size_t kAtOnce = L::blocks * L::at_once;
    static_assert(kAesGroupBlocks % kAtOnce == 0);
    const typename L::Schedule schedule(keys);
    for (std::size_t group = 0; group < groups; ++group, words += kGroupSamples) {
        const AesBlock first = aes_counter_block(domain_id, (first_group + group) * kAesGroupBlocks);
        const auto start = L::bit_xor(L::same(first), L::same(schedule[0]));
        for (std::size_t block = 0; block < kAesGroupBlocks; block += kAtOnce) {
            typename L::Blocks state[L::at_once];
            for (std::size_t i = 0; i < L::at_once; ++i) state[i] = L::bit_xor(start, L::load(counters.blocks + block + i * L::blocks));
            aes_rounds<L>(schedule, state);
            for (std::size_t i = 0; i < L::at_once; ++i) L::store(words + (block + i * L::blocks) * kAesBlockWords, state[i]);
        }
    }
}

template <class L>
constexpr AesKernels make_aes_kernels(const char* name) {
    return {
        .name = name,
        .expand_keys = expand_aes_keys<L>,
        .encrypt = encrypt_aes_blocks<L>,
        .keystream = aes_keystream<L>,
    };
}

}  // namespace hushvec
