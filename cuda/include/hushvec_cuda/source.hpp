// Where a call on a device takes its noise from and what it reports: plain memory, known to host and device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hushvec/keystream.hpp"

namespace hushvec::cuda {

// A key stream that lives in device memory, six 64-bit words: what a captured graph or a compiled program advances by itself.
struct DeviceStream {
    std::uint64_t key[4];   // the key's 32 bytes, little-endian
    std::uint64_t nonce;    // of the next call
    std::uint64_t rounds;   // 8, 12 or 20; anything else counts as 20
};
inline constexpr std::size_t kDeviceStreamBytes = sizeof(DeviceStream);

// Where a call's noise comes from: `stream`, or the key of `state` with the nonce that it holds when the call's first kernel runs.
// That kernel takes the nonce in one atomic step, so calls on several streams, or replays of several graphs, never share one.
struct NoiseSource {
    KeyStream stream;
    DeviceStream* state = nullptr;
};

// Whether exact noise is of version 3 (docs/format.md section 16). From a state it is of version 1.
inline bool is_half_words(const NoiseSource& source) { return source.state == nullptr && source.stream.half_words; }

// Streams that one release of a sum may draw from: those of steps that share noise.
inline constexpr std::size_t kMostNoiseTerms = 32;

// What a call reports in device memory, at the start of its workspace.
struct Report {
    std::uint64_t first_bad_row;   // number of the first row with NaN or Inf, or kNoRow
    std::uint32_t open_samples;    // samples that the kernels left to the multiprecision level
    std::uint32_t overflow;        // 1: more of those than the workspace holds, so the result must not be used
};
inline constexpr std::uint64_t kNoRow = ~std::uint64_t{0};

}  // namespace hushvec::cuda
