// Rows and comparisons for the tests of device code, on the host and on a device.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "device/element.hpp"
#include "hushvec/array.hpp"
#include "test_stream.hpp"

namespace hushvec::test {

using cuda::Bfloat16;
using cuda::Float16;
using cuda::narrowed;
using cuda::Wide;

inline constexpr double kClipNorm = 1.0;
inline constexpr double kSigma = 0.3;

template <class Stored>
inline constexpr DType kDType = sizeof(Stored) == 8               ? DType::float64
                                : sizeof(Stored) == 4             ? DType::float32
                                : std::is_same_v<Stored, Float16> ? DType::float16
                                                                  : DType::bfloat16;

inline const char* name_of(DType dtype) {
    switch (dtype) {
        case DType::float32: return "float32";
        case DType::float64: return "float64";
        case DType::float16: return "float16";
        default: return "bfloat16";
    }
}

// Rows with norms from well inside the ball to far outside, and one of zeros.
template <class Stored>
std::vector<Stored> rows_of(std::size_t rows, std::size_t columns) {
    std::vector<Stored> x(rows * columns);
    std::uint32_t state = 12345;
    for (std::size_t i = 0; i < x.size(); ++i) {
        state = state * 1664525u + 1013904223u;
        const std::size_t row = i / columns;
        const double size = row % 7 == 3 ? 0 : std::ldexp(3.0 / std::sqrt(static_cast<double>(columns)), -static_cast<int>(row % 5));
        x[i] = narrowed<Stored>(static_cast<Wide<Stored>>(size * std::ldexp(static_cast<std::int32_t>(state), -31)));
    }
    return x;
}

template <class Stored>
MatrixView view_of(std::vector<Stored>& memory, std::size_t rows, std::size_t columns) {
    const auto item = static_cast<std::ptrdiff_t>(sizeof(Stored));
    return {reinterpret_cast<std::byte*>(memory.data()), kDType<Stored>, rows, columns, item * static_cast<std::ptrdiff_t>(columns), item};
}

template <class Stored>
bool same_bits(const std::vector<Stored>& a, const std::vector<Stored>& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(Stored)) == 0);
}

}  // namespace hushvec::test
