// Whole numbers with the exact law of the discrete Gaussian or the discrete Laplacian.
//
// docs/format.md section 15 is the specification of the bits, docs/proofs/discrete.md the proof of the law.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hushvec/keystream.hpp"

namespace hushvec {

// The probability of k is proportional to exp(-k^2 / (2 scale^2)) or exp(-|k| / scale).
enum class DiscreteLaw {
    gaussian,
    laplacian,
};

inline constexpr double kSmallestDiscreteScale = 0x1p-6;
inline constexpr double kLargestDiscreteScale = 0x1p40;

// Up to here |k| > 2^31 - 1 has a probability below 2^-120.
inline constexpr double largest_int32_scale(DiscreteLaw law) { return law == DiscreteLaw::gaussian ? 0x1p27 : 0x1p24; }

inline constexpr std::uint64_t kMostDiscreteSamples = std::uint64_t{1} << 40;

// Throws std::invalid_argument unless scale is in [kSmallestDiscreteScale, kLargestDiscreteScale], for integers of 4 bytes at most
// largest_int32_scale(law), and count <= kMostDiscreteSamples.
void check_discrete(DiscreteLaw law, double scale, std::size_t item_bytes, std::size_t count);

// Fills out with independent samples, after check_discrete. Integer is std::int64_t or std::int32_t; the latter saturates at +-(2^31 - 1).
template <class Integer>
void fill_discrete(const KeyStream& stream, DiscreteLaw law, double scale, Integer* out, std::size_t count);

// out = the rows of x, of whole numbers, clipped exactly in the norm of the law's sensitivity (L2 for the Gaussian, L1 for the Laplacian), with
// the samples that fill_discrete makes for int64: docs/proofs/discrete_gaussian.md. Sums beyond the ends of Integer are these ends. Each
// element of x is read once. Throws std::invalid_argument as check_discrete for int64, and unless clip_norm is finite and >= 1.
template <class Integer>
void clip_and_add_discrete(const KeyStream& stream, const Integer* x, std::size_t rows, std::size_t columns, double clip_norm, DiscreteLaw law,
                           double scale, Integer* out);

}  // namespace hushvec
