#include "array/staging.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "dispatch/dispatch.hpp"
#include "noise/float16.hpp"

namespace hushvec {
namespace {

// Calls visit(first element, byte stride, count) for each stretch of a run that lies in one row.
template <class Visit>
void for_each_stretch(const MatrixView& array, std::size_t first_sample, std::size_t count, Visit visit) {
    if (count == 0) return;
    std::size_t row = first_sample / array.columns;
    std::size_t column = first_sample % array.columns;
    while (count > 0) {
        const std::size_t length = std::min(count, array.columns - column);
        visit(array.at(row, column), array.column_stride, length);
        count -= length;
        ++row;
        column = 0;
    }
}

template <class T>
T read(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

template <class T>
void write(std::byte* at, T value) {
    std::memcpy(at, &value, sizeof value);
}

template <class Stored, class Buffer, class Convert>
void gather_as(const MatrixView& array, std::size_t first_sample, std::size_t count, Buffer* buffer, Convert convert) {
    for_each_stretch(array, first_sample, count, [&](const std::byte* from, std::ptrdiff_t stride, std::size_t length) {
        for (std::size_t i = 0; i < length; ++i, from += stride) *buffer++ = convert(read<Stored>(from));
    });
}

template <class Stored, class Buffer, class Convert>
void scatter_as(const Buffer* buffer, const MatrixView& array, std::size_t first_sample, std::size_t count, Convert convert) {
    for_each_stretch(array, first_sample, count, [&](std::byte* to, std::ptrdiff_t stride, std::size_t length) {
        for (std::size_t i = 0; i < length; ++i, to += stride) write<Stored>(to, convert(*buffer++));
    });
}

template <class T>
void gather_same(const MatrixView& array, std::size_t first_sample, std::size_t count, T* buffer) {
    if (!array.rows_are_contiguous()) return gather_as<T>(array, first_sample, count, buffer, [](T v) { return v; });
    for_each_stretch(array, first_sample, count, [&](const std::byte* from, std::ptrdiff_t, std::size_t length) {
        std::memcpy(buffer, from, length * sizeof(T));
        buffer += length;
    });
}

template <class T>
void scatter_same(const T* buffer, const MatrixView& array, std::size_t first_sample, std::size_t count) {
    if (!array.rows_are_contiguous()) return scatter_as<T>(buffer, array, first_sample, count, [](T v) { return v; });
    for_each_stretch(array, first_sample, count, [&](std::byte* to, std::ptrdiff_t, std::size_t length) {
        std::memcpy(to, buffer, length * sizeof(T));
        buffer += length;
    });
}

void gather_float16(const MatrixView& array, std::size_t first_sample, std::size_t count, float* buffer) {
    if (!array.rows_are_contiguous()) return gather_as<std::uint16_t>(array, first_sample, count, buffer, float16_to_float);
    for_each_stretch(array, first_sample, count, [&](const std::byte* from, std::ptrdiff_t, std::size_t length) {
        active_kernels().widen_float16(reinterpret_cast<const std::uint16_t*>(from), length, buffer);
        buffer += length;
    });
}

float saturate(float value, float largest) { return std::clamp(value, -largest, largest); }

// Rounding towards zero: where the nearest 16-bit value is the larger in magnitude, the one below it.
template <class Narrow, class Widen>
std::uint16_t narrow_toward_zero(float value, Narrow narrow, Widen widen) {
    const std::uint16_t nearest = narrow(value);
    return std::fabs(widen(nearest)) > std::fabs(value) ? static_cast<std::uint16_t>(nearest - 1) : nearest;
}

void scatter_float16(const float* buffer, const MatrixView& array, std::size_t first_sample, std::size_t count, Rounding rounding) {
    const float largest = float16_to_float(kLargestFloat16);
    if (rounding == Rounding::toward_zero) {
        return scatter_as<std::uint16_t>(buffer, array, first_sample, count, [&](float value) {
            return narrow_toward_zero(saturate(value, largest), float_to_float16, float16_to_float);
        });
    }
    constexpr std::size_t kPiece = 1024;
    float finite[kPiece];
    std::uint16_t narrow[kPiece];
    while (count > 0) {
        const std::size_t length = std::min(count, kPiece);
        for (std::size_t i = 0; i < length; ++i) finite[i] = saturate(buffer[i], largest);
        active_kernels().narrow_float16(finite, length, narrow);
        scatter_same(narrow, array, first_sample, length);
        buffer += length;
        first_sample += length;
        count -= length;
    }
}

void scatter_bfloat16(const float* buffer, const MatrixView& array, std::size_t first_sample, std::size_t count, Rounding rounding) {
    const float largest = bfloat16_to_float(kLargestBfloat16);
    const bool nearest = rounding == Rounding::nearest;
    scatter_as<std::uint16_t>(buffer, array, first_sample, count, [&](float value) {
        const float finite = saturate(value, largest);
        return nearest ? float_to_bfloat16(finite) : narrow_toward_zero(finite, float_to_bfloat16, bfloat16_to_float);
    });
}

}  // namespace

void gather(const MatrixView& array, std::size_t first_sample, std::size_t count, float* buffer) {
    switch (array.dtype) {
        case DType::float32: return gather_same(array, first_sample, count, buffer);
        case DType::float16: return gather_float16(array, first_sample, count, buffer);
        case DType::bfloat16: return gather_as<std::uint16_t>(array, first_sample, count, buffer, bfloat16_to_float);
        case DType::float64: return gather_as<double>(array, first_sample, count, buffer, [](double v) { return static_cast<float>(v); });
    }
}

void gather(const MatrixView& array, std::size_t first_sample, std::size_t count, double* buffer) {
    gather_same(array, first_sample, count, buffer);
}

void scatter(const float* buffer, const MatrixView& array, std::size_t first_sample, std::size_t count, Rounding rounding) {
    switch (array.dtype) {
        case DType::float32: return scatter_same(buffer, array, first_sample, count);
        case DType::float16: return scatter_float16(buffer, array, first_sample, count, rounding);
        case DType::bfloat16: return scatter_bfloat16(buffer, array, first_sample, count, rounding);
        case DType::float64: return scatter_as<double>(buffer, array, first_sample, count, [](float v) { return double{v}; });
    }
}

void scatter(const double* buffer, const MatrixView& array, std::size_t first_sample, std::size_t count, Rounding) {
    scatter_same(buffer, array, first_sample, count);
}

}  // namespace hushvec
