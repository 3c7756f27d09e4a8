// Whole numbers to int8.
#pragma once

#include "device/element.hpp"
#include "device/team.hpp"
#include "noise/convert_kernels.hpp"

namespace hushvec::cuda {

inline constexpr unsigned kInt8Threads = 256;

template <class Stored>
struct Int8Body {
    const Stored* numbers;
    std::int8_t* out;
    std::size_t count;

    template <class Team>
    HUSHVEC_INLINE void run(std::size_t block, std::size_t blocks, const Team& team) const {
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            HUSHVEC_UNROLL_BY(4)
            for (std::size_t i = block * kInt8Threads + thread; i < count; i += blocks * kInt8Threads) {
                out[i] = static_cast<std::int8_t>(clamped(static_cast<float>(widened(numbers[i])), kLargestInt8));
            }
        });
    }
};

}  // namespace hushvec::cuda
