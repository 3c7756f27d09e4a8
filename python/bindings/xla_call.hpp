// What the handlers of XLA's calls share: the handshake of versions, arrays as rows, attributes by name, exceptions as XLA's errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "hushvec/array.hpp"
#include "hushvec/float_modes.hpp"
#include "xla_ffi.hpp"

namespace hushvec::xla {

inline Error* error_of(const Call& call, int code, const char* message) {
    ErrorArguments arguments = {sizeof(ErrorArguments), nullptr, message, code};
    return call.functions->create_error(&arguments);
}

// Whether XLA only asks which version the handler was compiled for, which is then answered.
inline bool answers_metadata(const Call& call) {
    for (Extension* extension = call.extensions; extension != nullptr; extension = extension->next) {
        if (extension->type != kMetadataExtension) continue;
        Metadata& metadata = *reinterpret_cast<MetadataExtension*>(extension)->metadata;
        metadata.version = {sizeof(Version), nullptr, kMajorVersion, kMinorVersion};
        metadata.traits = 0;   // not for command buffers, which would repeat the noise
        if (metadata.struct_size >= sizeof(Metadata)) metadata.state_type = 0;
        return true;
    }
    return false;
}

// The body of a handler, with its exceptions. XLA flushes subnormal numbers on its threads; the core must not.
template <class Body> Error* handle(const Call& call, Body body) {
    if (answers_metadata(call)) return nullptr;
    try {
        const FloatModes modes;
        body(call);
        return nullptr;
    } catch (const std::invalid_argument& error) {
        return error_of(call, kInvalidArgument, error.what());
    } catch (const std::exception& error) {
        return error_of(call, kFailedPrecondition, error.what());
    }
}

inline DType dtype_of_buffer(int dtype) {
    switch (dtype) {
        case kFloat32: return DType::float32;
        case kFloat64: return DType::float64;
        case kFloat16: return DType::float16;
        case kBfloat16: return DType::bfloat16;
        default: throw std::invalid_argument("x must have dtype float32, float64, float16 or bfloat16, got XLA's type " + std::to_string(dtype));
    }
}

// An argument or result in row-major order: its last axis are rows, whatever lies before it counts them.
inline MatrixView rows_of(const Buffers& buffers, std::int64_t index) {
    if (buffers.types[index] != kBufferType) throw std::invalid_argument("a call must have arrays alone");
    const Buffer& buffer = *static_cast<const Buffer*>(buffers.values[index]);
    if (buffer.rank < 1) throw std::invalid_argument("x must have 1 dimension or more, got " + std::to_string(buffer.rank));
    MatrixView view;
    view.data = static_cast<std::byte*>(buffer.data);
    view.dtype = dtype_of_buffer(buffer.dtype);
    view.columns = static_cast<std::size_t>(buffer.lengths[buffer.rank - 1]);
    view.rows = 1;
    for (std::int64_t axis = 0; axis + 1 < buffer.rank; ++axis) view.rows *= static_cast<std::size_t>(buffer.lengths[axis]);
    view.column_stride = static_cast<std::ptrdiff_t>(item_size(view.dtype));
    view.row_stride = view.column_stride * static_cast<std::ptrdiff_t>(view.columns);
    return view;
}

inline MatrixView only_rows_of(const Buffers& buffers) {
    if (buffers.count != 1) throw std::invalid_argument("a call must have one array and one result");
    return rows_of(buffers, 0);
}

// Argument and result of one call: of one shape and dtype.
struct RowsOfCall {
    MatrixView x, out;

    explicit RowsOfCall(const Call& call) : x(only_rows_of(call.arguments)), out(only_rows_of(call.results)) {
        if (x.dtype != out.dtype || x.rows != out.rows || x.columns != out.columns) throw std::invalid_argument("the result must have the form of x");
    }
};

// Rows in parts, a matrix for each argument, and for each the run of float32 that their sum goes to.
struct PartsOfCall {
    std::vector<MatrixView> parts, sums;
    std::vector<std::size_t> columns;

    explicit PartsOfCall(const Call& call) {
        if (call.arguments.count < 1 || call.results.count != call.arguments.count) throw std::invalid_argument("a call must have a result for each array");
        for (std::int64_t i = 0; i < call.arguments.count; ++i) {
            parts.push_back(rows_of(call.arguments, i));
            sums.push_back(rows_of(call.results, i));
            columns.push_back(parts.back().columns);
            if (parts.back().rows != parts.front().rows) throw std::invalid_argument("all parts must have the same number of rows");
            if (sums.back().dtype != DType::float32 || sums.back().rows != 1 || sums.back().columns != columns.back()) {
                throw std::invalid_argument("a result must be float32 and have the length of a row of its part");
            }
        }
    }
};

// The attribute of this name and kind. Throws std::invalid_argument where a program has none: it was not made by this version of hushvec.
inline const void* attribute(const Call& call, std::string_view name, int type) {
    const Attributes& all = call.attributes;
    for (std::int64_t i = 0; i < all.count; ++i) {
        if (std::string_view(all.names[i]->data, all.names[i]->length) == name && all.types[i] == type) return all.values[i];
    }
    throw std::invalid_argument(std::string(name) + " must be an attribute of the call: trace the program again with this version of hushvec");
}

inline const void* scalar(const Call& call, std::string_view name, int dtype) {
    const auto& found = *static_cast<const Scalar*>(attribute(call, name, kScalarAttribute));
    if (found.dtype != dtype) throw std::invalid_argument(std::string(name) + " must have XLA's type " + std::to_string(dtype) + ", got " + std::to_string(found.dtype));
    return found.value;
}

inline double number(const Call& call, std::string_view name) { return *static_cast<const double*>(scalar(call, name, kFloat64)); }

inline bool flag(const Call& call, std::string_view name) { return *static_cast<const bool*>(scalar(call, name, kPredicate)); }

inline std::string_view text(const Call& call, std::string_view name) {
    const auto& found = *static_cast<const Text*>(attribute(call, name, kTextAttribute));
    return {found.data, found.length};
}

}  // namespace hushvec::xla
