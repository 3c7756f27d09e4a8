// The exact ladder below the vector level: settles the roundings that float32 lanes left open.
//
// n = round(X + s * Z) over the reals, Z the Gaussian or Laplace variate of docs/format.md section 3, whose uniforms
// are real numbers with bits drawn on demand. Each level brackets X + s * Z; it answers when the bracket holds no
// half-integer, and otherwise the next level looks closer:
//   2  float64 on the first word alone         3  float64 on 64 more bits
//   4  multiprecision on 256 (Laplace 512) more bits a step, up to kExtensionSteps steps
// What a level accepts holds for every extension of the bits it saw, so stopping early conditions nothing.
#pragma once

#include <cstdint>

#include "hushvec/keystream.hpp"

namespace hushvec {

// n saturates here: part of the format, reached only by values no level-1 test accepts.
inline constexpr std::int32_t kMaxGridIndex = 1 << 24;

inline constexpr int kExtensionSteps = 8;

struct Settled {
    std::int32_t index;   // n
    int level;            // the level that decided
};

struct GaussianWord {
    std::uint64_t pair;           // p of docs/format.md
    std::uint32_t radius_word;    // A
    std::uint32_t angle_word;     // B
    bool sine;                    // false: the sample of word w, true: of word w + 8
};

struct LaplaceWord {
    std::uint64_t sample;
    std::uint32_t word;
};

// x is X, the clipped element in grid units; s is sigma / g (or scale / g).
Settled settle(const KeyStream& stream, const GaussianWord& word, double x, double s, int first_level = 2);
Settled settle(const KeyStream& stream, const LaplaceWord& word, double x, double s, int first_level = 2);

// Level 4 alone.
std::int32_t settle_multiprecision(const KeyStream& stream, const GaussianWord& word, double x, double s);
std::int32_t settle_multiprecision(const KeyStream& stream, const LaplaceWord& word, double x, double s);

}  // namespace hushvec
