// Rows of whole numbers: their sizes, and their elements times one number, truncated where float64 is sure of it.
//
// Plain loops, which compilers put into the lanes of each table's instruction set; V says whose they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "dispatch/kernels.hpp"
#include "lanes/inline.hpp"

namespace hushvec {

// More than the relative error of seven roundings, 2^-53 each.
inline constexpr double kTruncationRoom = 0x1p-50;
// No clipped element is it: one of this size stays as it is or gets smaller.
inline constexpr std::int64_t kUndecided = std::numeric_limits<std::int64_t>::min();
inline constexpr int kMostScaledBits = 62;

HUSHVEC_INLINE std::uint64_t sign_of(std::int64_t x) { return 0 - (static_cast<std::uint64_t>(x) >> 63); }   // all bits of it
HUSHVEC_INLINE std::uint64_t size_of(std::int64_t x) { return (static_cast<std::uint64_t>(x) ^ sign_of(x)) - sign_of(x); }

template <class V>
WholeSizes whole_sizes(const std::int64_t* row, std::size_t count, bool squares) {
    WholeSizes sizes = {0, 0};
    const auto add = [&](auto power) HUSHVEC_INLINE_LAMBDA {
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint64_t size = size_of(row[i]);
            sizes.bits |= size;
            sizes.total += power(size);
        }
    };
    if (squares) {
        add([](std::uint64_t size) HUSHVEC_INLINE_LAMBDA { return size * size; });
    } else {
        add([](std::uint64_t size) HUSHVEC_INLINE_LAMBDA { return size; });
    }
    return sizes;
}

// out = the integer part of row times q, for 0 < q < 1 and sizes below 2^kMostScaledBits, whatever the relative error of q may be that
// kTruncationRoom covers; kUndecided, and true is returned, where that decides about it.
template <class V>
bool scale_whole(const std::int64_t* row, std::size_t count, double q, std::int64_t* out) {
    const double least = q * (1 - kTruncationRoom), most = q * (1 + kTruncationRoom);
    std::int64_t differences = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const auto element = static_cast<double>(row[i]);
        const auto low = static_cast<std::int64_t>(element * least), high = static_cast<std::int64_t>(element * most);
        differences |= low ^ high;
        out[i] = low == high ? low : kUndecided;
    }
    return differences != 0;
}

// out = row + noise, modulo 2^64 or 2^32. Whether a sum is beyond the ends of Integer.
template <class V, class Integer>
bool add_whole(const std::int64_t* row, const std::int64_t* noise, std::size_t count, Integer* out) {
    std::int64_t overflows = 0, losses = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const auto sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(row[i]) + static_cast<std::uint64_t>(noise[i]));
        const auto narrow = static_cast<Integer>(sum);
        overflows |= (row[i] ^ sum) & (noise[i] ^ sum);   // negative: the sum has neither sign
        losses |= narrow ^ sum;
        out[i] = narrow;
    }
    return overflows < 0 || losses != 0;
}

}  // namespace hushvec
