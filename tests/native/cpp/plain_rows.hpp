// Flat arrays and their contents for the tests of the core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hushvec/array.hpp"

namespace hushvec::test {

template <class T>
MatrixView view_of(std::vector<T>& memory, DType dtype, std::size_t rows, std::size_t columns) {
    const auto item = static_cast<std::ptrdiff_t>(sizeof(T));
    return {reinterpret_cast<std::byte*>(memory.data()), dtype, rows, columns, item * static_cast<std::ptrdiff_t>(columns), item};
}

inline std::vector<float> rows_of(std::size_t count) {
    std::vector<float> x(count);
    std::uint32_t state = 12345;
    for (float& value : x) {
        state = state * 1664525u + 1013904223u;
        value = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31f;
    }
    return x;
}

}  // namespace hushvec::test
