// What every implementation of AES-256 supplies: one table each, picked once (dispatch/aes_dispatch.cpp). All give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hushvec/keystream.hpp"
#include "lanes/inline.hpp"

namespace hushvec {

inline constexpr std::size_t kAesRounds = 14;
inline constexpr std::size_t kAesKeyWords = 8;
inline constexpr std::size_t kAesBlockWords = 4;
inline constexpr std::size_t kAesScheduleWords = kAesBlockWords * (kAesRounds + 1);
inline constexpr std::size_t kAesGroupBlocks = kGroupSamples / kAesBlockWords;

// Sixteen bytes as little-endian words.
struct alignas(16) AesBlock {
    std::uint32_t words[kAesBlockWords];
};

using AesKey = std::uint32_t[kAesKeyWords];

struct alignas(16) AesRoundKeys {
    std::uint32_t words[kAesScheduleWords];
};

// docs/format.md section 13: eight zero bytes, the domain, and the number of the block in seven bytes, big-endian.
HUSHVEC_INLINE constexpr AesBlock aes_counter_block(std::uint64_t domain_id, std::uint64_t number) {
    const std::uint64_t counter = __builtin_bswap64((domain_id << 56) | number);
    return {{0, 0, static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32)}};
}

struct AesKernels {
    const char* name;
    void (*expand_keys)(const AesKey* keys, std::size_t count, AesRoundKeys* const* round_keys);
    void (*encrypt)(const AesRoundKeys&, const AesBlock* in, std::size_t count, AesBlock* out);   // block by block; out may be in

    // Counter mode: the words of whole groups of one domain, in the order of the blocks.
    void (*keystream)(const AesRoundKeys&, std::uint64_t domain_id, std::uint64_t first_group, std::size_t groups, std::uint32_t* words);
};

extern const AesKernels kAesPortable;
#if defined(__x86_64__)
extern const AesKernels kAesNi;
extern const AesKernels kAesVaes256;
extern const AesKernels kAesVaes512;
#elif defined(__aarch64__)
extern const AesKernels kAesNeon;
#endif

}  // namespace hushvec
