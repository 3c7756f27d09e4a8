#include "array/staging.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "dispatch/dispatch.hpp"
#include "lanes/float16.hpp"

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
    if (array.is_flat()) {
        std::memcpy(buffer, reinterpret_cast<const T*>(array.data) + first_sample, count * sizeof(T));
        return;
    }
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

// A 16-bit format: its conversions of whole runs, to nearest even on the way down.
struct Narrow {
    void (*widen)(const std::uint16_t* in, std::size_t count, float* out);
    void (*narrow)(const float* in, std::size_t count, std::uint16_t* out);
    float largest;
};

void widen_bfloat16(const std::uint16_t* in, std::size_t count, float* out) {
    for (std::size_t i = 0; i < count; ++i) out[i] = bfloat16_to_float(in[i]);
}

void narrow_bfloat16(const float* in, std::size_t count, std::uint16_t* out) {
    for (std::size_t i = 0; i < count; ++i) out[i] = float_to_bfloat16(in[i]);
}

Narrow narrow_format(DType dtype) {
    if (dtype == DType::bfloat16) return {widen_bfloat16, narrow_bfloat16, bfloat16_to_float(kLargestBfloat16)};
    return {active_kernels().widen_float16, active_kernels().narrow_float16, float16_to_float(kLargestFloat16)};
}

// Two selections and no branch, so that loops over it become vector code.
HUSHVEC_INLINE float saturate(float value, float largest) {
    const float below = value < largest ? value : largest;
    return below > -largest ? below : -largest;
}

constexpr std::size_t kPiece = 1024;   // elements on the stack at a time

void gather_narrow(const MatrixView& array, std::size_t first_sample, std::size_t count, float* buffer) {
    const Narrow format = narrow_format(array.dtype);
    if (array.rows_are_contiguous()) {
        return for_each_stretch(array, first_sample, count, [&](const std::byte* from, std::ptrdiff_t, std::size_t length) {
            format.widen(reinterpret_cast<const std::uint16_t*>(from), length, buffer);
            buffer += length;
        });
    }
    std::uint16_t piece[kPiece];
    for (std::size_t done = 0; done < count; done += kPiece) {
        const std::size_t length = std::min(count - done, kPiece);
        gather_same(array, first_sample + done, length, piece);
        format.widen(piece, length, buffer + done);
    }
}

void scatter_narrow(const float* buffer, const MatrixView& array, std::size_t first_sample, std::size_t count, Rounding rounding) {
    const Narrow format = narrow_format(array.dtype);
    float finite[kPiece], back[kPiece];
    std::uint16_t narrow[kPiece];
    for (std::size_t done = 0; done < count; done += kPiece) {
        const std::size_t length = std::min(count - done, kPiece);
        for (std::size_t i = 0; i < length; ++i) finite[i] = saturate(buffer[done + i], format.largest);
        format.narrow(finite, length, narrow);
        if (rounding == Rounding::toward_zero) {   // where the nearest is the larger in magnitude, the one below it
            format.widen(narrow, length, back);
            for (std::size_t i = 0; i < length; ++i) {
                narrow[i] = static_cast<std::uint16_t>(narrow[i] - (std::fabs(back[i]) > std::fabs(finite[i])));
            }
        }
        scatter_same(narrow, array, first_sample + done, length);
    }
}

void scatter_int8(const float* buffer, const MatrixView& array, std::size_t first_sample, std::size_t count) {
    const auto narrow = active_kernels().narrow_int8;
    if (array.rows_are_contiguous()) {
        return for_each_stretch(array, first_sample, count, [&](std::byte* to, std::ptrdiff_t, std::size_t length) {
            narrow(buffer, length, reinterpret_cast<std::int8_t*>(to));
            buffer += length;
        });
    }
    std::int8_t piece[kPiece];
    for (std::size_t done = 0; done < count; done += kPiece) {
        const std::size_t length = std::min(count - done, kPiece);
        narrow(buffer + done, length, piece);
        scatter_same(piece, array, first_sample + done, length);
    }
}

// The compiler may take no later use of the buffer from the array that it was filled from.
void end_of_reading() { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace

void gather(const MatrixView& array, std::size_t first_sample, std::size_t count, float* buffer) {
    switch (array.dtype) {
        case DType::float32: gather_same(array, first_sample, count, buffer); break;
        case DType::float16:
        case DType::bfloat16: gather_narrow(array, first_sample, count, buffer); break;
        case DType::float64: gather_as<double>(array, first_sample, count, buffer, [](double v) { return static_cast<float>(v); }); break;
        case DType::int8: break;   // no input has it
    }
    end_of_reading();
}

void gather(const MatrixView& array, std::size_t first_sample, std::size_t count, double* buffer) {
    gather_same(array, first_sample, count, buffer);
    end_of_reading();
}

void scatter(const float* buffer, const MatrixView& array, std::size_t first_sample, std::size_t count, Rounding rounding) {
    switch (array.dtype) {
        case DType::float32: return scatter_same(buffer, array, first_sample, count);
        case DType::float16:
        case DType::bfloat16: return scatter_narrow(buffer, array, first_sample, count, rounding);
        case DType::int8: return scatter_int8(buffer, array, first_sample, count);
        case DType::float64: return scatter_as<double>(buffer, array, first_sample, count, [](float v) { return double{v}; });
    }
}

void scatter(const double* buffer, const MatrixView& array, std::size_t first_sample, std::size_t count, Rounding) {
    scatter_same(buffer, array, first_sample, count);
}

}  // namespace hushvec
