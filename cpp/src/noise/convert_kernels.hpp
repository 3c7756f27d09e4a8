// float16 to and from float32, a vector at a time, with a scalar tail of the same rounding; whole numbers to int8.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "lanes/float16.hpp"

namespace hushvec {

inline constexpr std::int32_t kLargestInt8 = 127;

template <class V>
void widen_float16(const std::uint16_t* in, std::size_t count, float* out) {
    std::size_t i = 0;
    for (; i + V::lanes <= count; i += V::lanes) V::store(out + i, V::load_float16(in + i));
    for (; i < count; ++i) out[i] = float16_to_float(in[i]);
}

template <class V>
void narrow_float16(const float* in, std::size_t count, std::uint16_t* out) {
    std::size_t i = 0;
    for (; i + V::lanes <= count; i += V::lanes) V::store_float16(out + i, V::load(in + i));
    for (; i < count; ++i) out[i] = float_to_float16(in[i]);
}

// Whole numbers below 2^31. The compiler makes vectors of it, in which integers saturate in fewer instructions than floats; V keeps the
// copies of the instruction sets apart.
template <class V>
void narrow_int8(const float* in, std::size_t count, std::int8_t* out) {
    for (std::size_t i = 0; i < count; ++i) {
        out[i] = static_cast<std::int8_t>(std::clamp(static_cast<std::int32_t>(in[i]), -kLargestInt8, kLargestInt8));
    }
}

}  // namespace hushvec
