// The key stream: ChaCha with 20, 12 or 8 rounds, addressed by (key, nonce, domain, block).
//
// Bernstein, "ChaCha, a variant of Salsa20" (2008): 256-bit key, 64-bit block counter, 64-bit nonce.
// The counter carries the domain in its top byte, so that every use of one (key, nonce) reads its own blocks.
// docs/format.md is the specification of the layout; kFormatVersion names it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hushvec {

inline constexpr int kFormatVersion = 1;

inline constexpr std::size_t kBlockWords = 16;    // one ChaCha block
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
inline constexpr std::uint64_t kDigits = 32;           // reports of bits: binary digits 1 to 16 of 512 uniforms a group
inline constexpr std::uint64_t kMoreDigits = 33;       // digits 17 to 64, in three groups
inline constexpr std::uint64_t kCellHigh = 34;         // Hadamard response: bits 1 to 32 of every uniform
inline constexpr std::uint64_t kCellLow = 35;          // bits 33 to 64
inline constexpr std::uint64_t kColumn = 36;           // the column within its half-block
}  // namespace domain

inline constexpr std::uint64_t kMaxBlockIndex = (std::uint64_t{1} << 56) - 1;

struct KeyStream {
    std::uint32_t key[8] = {};   // 32 bytes, little-endian words
    std::uint64_t nonce = 0;
    int rounds = 20;
};

using Block = std::array<std::uint32_t, kBlockWords>;

// Counter value of block `index` in `domain_id`.
constexpr std::uint64_t block_counter(std::uint64_t domain_id, std::uint64_t index) {
    return (domain_id << 56) | index;
}

// One block, by the book. The rare paths and the known-answer tests use it; the fills use whole groups.
Block chacha_block(const KeyStream& stream, std::uint64_t counter);

}  // namespace hushvec
