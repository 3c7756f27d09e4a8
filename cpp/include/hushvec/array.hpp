// A strided matrix in memory that someone else owns: what bindings hand to the core.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hushvec {

enum class DType {
    float32,
    float64,
    float16,
    bfloat16,
    int8,   // of exact releases alone, docs/format.md section 14: never of an input
};

constexpr std::size_t item_size(DType dtype) {
    switch (dtype) {
        case DType::float32: return 4;
        case DType::float64: return 8;
        case DType::int8: return 1;
        default: return 2;
    }
}

// The dtype whose elements are T in memory.
template <class T>
inline constexpr DType dtype_of = sizeof(T) == sizeof(double) ? DType::float64 : DType::float32;

// Element (row, column) lies at data + row * row_stride + column * column_stride, strides in bytes.
// A one-dimensional array is one row.
struct MatrixView {
    std::byte* data = nullptr;
    DType dtype = DType::float32;
    std::size_t rows = 0;
    std::size_t columns = 0;
    std::ptrdiff_t row_stride = 0;
    std::ptrdiff_t column_stride = 0;

    std::size_t size() const { return rows * columns; }
    std::byte* at(std::size_t row, std::size_t column) const {
        return data + static_cast<std::ptrdiff_t>(row) * row_stride + static_cast<std::ptrdiff_t>(column) * column_stride;
    }
    // Each row is one run of aligned elements.
    bool rows_are_contiguous() const {
        const auto item = static_cast<std::ptrdiff_t>(item_size(dtype));
        const bool aligned = reinterpret_cast<std::uintptr_t>(data) % item_size(dtype) == 0 && row_stride % item == 0;
        return aligned && (columns <= 1 || column_stride == item);
    }
    // One run of memory in sample order.
    bool is_flat() const {
        return rows_are_contiguous() && (rows <= 1 || row_stride == static_cast<std::ptrdiff_t>(columns * item_size(dtype)));
    }
};

}  // namespace hushvec
