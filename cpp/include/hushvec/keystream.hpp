// The key stream: ChaCha with 20, 12 or 8 rounds, or AES-256 in counter mode, addressed by (key, nonce, domain, block).
//
// Bernstein, "ChaCha, a variant of Salsa20" (2008): 256-bit key, 64-bit block counter, 64-bit nonce. FIPS 197 and SP 800-38A: AES-256
// under a key derived from (key, nonce) by RFC 8452 section 4.
// The counter carries the domain in a byte of its own, so that every use of one (key, nonce) reads its own blocks.
// docs/format.md is the specification of the layout; format_version() names it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hushvec {

inline constexpr std::size_t kBlockWords = 16;    // one ChaCha block, four of AES
inline constexpr std::size_t kGroupBlocks = 16;   // blocks that make one group of samples
inline constexpr std::size_t kGroupSamples = kBlockWords * kGroupBlocks;
inline constexpr std::size_t kGroupPairs = kGroupSamples / 2;

// What a block of the stream is used for: the top byte of the block counter.
namespace domain {
inline constexpr std::uint64_t kMain = 0;              // the first 32 bits of every uniform
inline constexpr std::uint64_t kFirstExtension = 1;    // 256 (Gaussian) or 512 (Laplace) further bits per step
inline constexpr std::uint64_t kLastExtension = 8;
inline constexpr std::uint64_t kLowWords = 16;         // bits 33 to 64 of the float64 fills
inline constexpr std::uint64_t kRows = 17;             // one run of blocks per row: the radius of L2-Laplace
inline constexpr std::uint64_t kComponents = 18;       // one run of blocks per row: the component of PrivUnitG along the direction
inline constexpr std::uint64_t kResponseHigh = 20;     // randomized response: bits 1 to 32 of every uniform
inline constexpr std::uint64_t kResponseLow = 21;      // bits 33 to 64
inline constexpr std::uint64_t kGumbelHigh = 22;       // Gumbel noise: the same
inline constexpr std::uint64_t kGumbelLow = 23;        // its further bits, domain 24, are read outside the core
inline constexpr std::uint64_t kPoissonHigh = 25;      // Poisson sampling: bits 1 to 32 of every uniform
inline constexpr std::uint64_t kPoissonLow = 26;       // bits 33 to 64
inline constexpr std::uint64_t kDiscreteLow = 27;      // discrete noise: the low bits of large integers
inline constexpr std::uint64_t kDiscreteAttempts = 28; // four blocks for each attempt at a sample
inline constexpr std::uint64_t kRefinement = 29;       // version 3: sixteen more bits of each uniform of a pair
inline constexpr std::uint64_t kDigits = 32;           // reports of bits: binary digits 1 to 16 of 512 uniforms a group
inline constexpr std::uint64_t kMoreDigits = 33;       // digits 17 to 64, in three groups
inline constexpr std::uint64_t kCellHigh = 34;         // Hadamard response: bits 1 to 32 of every uniform
inline constexpr std::uint64_t kCellLow = 35;          // bits 33 to 64
inline constexpr std::uint64_t kColumn = 36;           // the column within its half-block
}  // namespace domain

enum class Cipher : std::uint32_t {
    chacha8 = 8,
    chacha12 = 12,
    chacha20 = 20,
    aes256 = 256,
};

inline constexpr Cipher kCiphers[] = {Cipher::aes256, Cipher::chacha20, Cipher::chacha12, Cipher::chacha8};

constexpr const char* name_of(Cipher cipher) {
    switch (cipher) {
        case Cipher::aes256: return "aes256";
        case Cipher::chacha20: return "chacha20";
        case Cipher::chacha12: return "chacha12";
        case Cipher::chacha8: return "chacha8";
    }
    return "";
}

constexpr int rounds_of(Cipher cipher) { return cipher == Cipher::aes256 ? 14 : static_cast<int>(cipher); }

// Version 1 is what ChaCha makes, version 2 AES-256. Version 3 is exact noise on rows and sums that starts from half words, of either cipher.
constexpr int format_version(Cipher cipher, bool half_words = false) {
    if (half_words) return 3;
    return cipher == Cipher::aes256 ? 2 : 1;
}

struct AesRoundKeys;

// AES takes a new key after 2^kAesSegmentBits blocks of a domain, by the same derivation (docs/proofs/key_stream.md).
inline constexpr int kAesSegmentBits = 24;

struct KeyStream {
    std::uint32_t key[8] = {};   // 32 bytes, little-endian words
    std::uint64_t nonce = 0;
    Cipher cipher = Cipher::chacha20;
    std::int16_t segment_bits = kAesSegmentBits;
    bool half_words = false;   // exact noise on rows and on sums of rows is of version 3
    const AesRoundKeys* round_keys = nullptr;   // of the first segment; WipedStream has them
};

// Blocks of kBlockWords words in one domain.
constexpr std::uint64_t max_block_index(Cipher cipher) { return (std::uint64_t{1} << (cipher == Cipher::aes256 ? 54 : 56)) - 1; }

using Block = std::array<std::uint32_t, kBlockWords>;

// ChaCha's counter of block `index` in `domain_id`.
constexpr std::uint64_t block_counter(std::uint64_t domain_id, std::uint64_t index) {
    return (domain_id << 56) | index;
}

// One ChaCha block, by the book.
Block chacha_block(const KeyStream& stream, std::uint64_t counter);

// Block `index` of a domain whose blocks stand alone. The rare paths use it; the fills use whole groups.
Block stream_block(const KeyStream& stream, std::uint64_t domain_id, std::uint64_t index);

// The words 0 to 15 of one lane, `group * kGroupBlocks + lane`, of a domain that is laid out in groups.
Block lane_block(const KeyStream& stream, std::uint64_t domain_id, std::uint64_t lane);

}  // namespace hushvec
