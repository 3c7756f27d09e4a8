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
#include "lanes/inline.hpp"
#include "rng/aes_kernels.hpp"

namespace hushvec {

// FIPS 197 section 5.2 for eight key words. Words are little-endian, so byte 0 of the standard is the lowest here.
template <class L>
void expand_aes_key(const std::uint32_t* key, AesRoundKeys& keys) {
    std::uint32_t* w = keys.words;
    std::uint32_t round_constant = 1;
    for (std::size_t i = 0; i < kAesKeyWords; ++i) w[i] = key[i];
    for (std::size_t i = kAesKeyWords; i < kAesScheduleWords; ++i) {
        std::uint32_t changed = w[i - 1];
        if (i % kAesKeyWords == 0) {
            changed = L::sub_word(std::rotr(changed, 8)) ^ round_constant;
            round_constant <<= 1;
        } else if (i % kAesKeyWords == 4) {
            changed = L::sub_word(changed);
        }
        w[i] = w[i - kAesKeyWords] ^ changed;
    }
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
void encrypt_aes_blocks(const AesRoundKeys& keys, const AesBlock* in, std::size_t count, AesBlock* out) {
    const typename L::Schedule schedule(keys);
    for (std::size_t first = 0; first < count; first += L::blocks) {
        const std::size_t here = count - first < L::blocks ? count - first : L::blocks;
        AesBlock buffer[L::blocks] = {};
        std::memcpy(buffer, in + first, here * sizeof(AesBlock));
        typename L::Blocks state[1] = {L::bit_xor(L::load(buffer), L::same(schedule[0]))};
        aes_rounds<L>(schedule, state);
        L::store(buffer, state[0]);
        std::memcpy(out + first, buffer, here * sizeof(AesBlock));
    }
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
        .expand_key = expand_aes_key<L>,
        .encrypt = encrypt_aes_blocks<L>,
        .keystream = aes_keystream<L>,
    };
}

}  // namespace hushvec
