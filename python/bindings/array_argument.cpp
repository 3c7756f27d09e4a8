#include "array_argument.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "array_rules.hpp"
#include "dlpack.hpp"

namespace hushvec::python {
namespace {

// Strides in bytes.
template <class Extent>
ArrayArgument matrix(void* data, DType dtype, std::ptrdiff_t ndim, const Extent* shape, const std::ptrdiff_t* strides, const char* name) {
    check_dimensions(shape, ndim, name);
    MatrixView view;
    view.data = static_cast<std::byte*>(data);
    view.dtype = dtype;
    view.rows = ndim == 2 ? static_cast<std::size_t>(shape[0]) : 1;
    view.columns = static_cast<std::size_t>(shape[ndim - 1]);
    // The stride of an axis that is never stepped along may be any number: not one to compute addresses with.
    view.row_stride = view.rows > 1 ? strides[0] : 0;
    view.column_stride = view.columns > 1 ? strides[ndim - 1] : static_cast<std::ptrdiff_t>(item_size(dtype));
    return {view, ndim == 1, true, py::object()};
}

DType numpy_dtype(const py::array& array, const char* name) {
    const py::dtype dtype = array.dtype();
    const bool native = dtype.byteorder() == '=' || dtype.byteorder() == '|';
    if (dtype.kind() == 'f' && native) {
        switch (dtype.itemsize()) {
            case 2: return DType::float16;
            case 4: return DType::float32;
            case 8: return DType::float64;
            default: break;
        }
    }
    if (dtype.kind() == 'i' && dtype.itemsize() == 1) return DType::int8;
    refuse_dtype(name, py::str(dtype));
}

ArrayArgument from_numpy(const py::array& array, const char* name) {
    const DType dtype = numpy_dtype(array, name);
    ArrayArgument argument = matrix(const_cast<void*>(array.data()), dtype, array.ndim(), array.shape(), array.strides(), name);
    argument.writable = array.writeable();
    argument.owner = array;
    return argument;
}

bool is_int8(const dlpack::DataType& dtype) { return dtype.code == dlpack::kInt && dtype.bits == 8 && dtype.lanes == 1; }

ArrayArgument from_dlpack(py::handle array, const char* name) {
    refuse_negated(array, name);
    const py::object exported = array.attr("__dlpack__")();
    auto* managed = static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(exported.ptr(), "dltensor"));
    if (managed == nullptr) throw py::error_already_set();
    const dlpack::Tensor& tensor = managed->tensor;
    if (tensor.device.type != dlpack::kCpu) {
        throw py::type_error(std::string(name) + " must be in CPU memory, got DLPack device type " + std::to_string(tensor.device.type));
    }
    const DType dtype = is_int8(tensor.dtype) ? DType::int8 : dlpack_dtype(tensor.dtype, name, array);
    std::ptrdiff_t strides[2] = {0, 0};
    if (tensor.ndim == 1 || tensor.ndim == 2) {
        const auto item = static_cast<std::ptrdiff_t>(item_size(dtype));
        for (std::int32_t i = 0; i < tensor.ndim; ++i) {
            const std::int64_t row_major = tensor.ndim == 2 && i == 0 ? tensor.shape[1] : 1;
            strides[i] = item * static_cast<std::ptrdiff_t>(tensor.strides != nullptr ? tensor.strides[i] : row_major);
        }
    }
    ArrayArgument argument = matrix(tensor.data, dtype, tensor.ndim, tensor.shape, strides, name);
    if (argument.view.data != nullptr) {
        argument.view.data += tensor.byte_offset;
    } else if (argument.view.size() > 0) {   // torch's fake and efficient zero tensors
        throw py::value_error(std::string(name) + " must have memory of its own, got a tensor without");
    }
    argument.owner = exported;   // the capsule frees the export when it goes
    return argument;
}

struct Extent {
    std::uintptr_t begin, end;
};

Extent memory_of(const MatrixView& view) {
    if (view.size() == 0) return {0, 0};
    std::ptrdiff_t low = 0, high = 0;
    for (const std::ptrdiff_t reach : {static_cast<std::ptrdiff_t>(view.rows - 1) * view.row_stride,
                                       static_cast<std::ptrdiff_t>(view.columns - 1) * view.column_stride}) {
        (reach < 0 ? low : high) += reach;
    }
    const auto base = reinterpret_cast<std::uintptr_t>(view.data);
    return {base + static_cast<std::uintptr_t>(low), base + static_cast<std::uintptr_t>(high) + item_size(view.dtype)};
}

bool same_memory(const MatrixView& a, const MatrixView& b) {
    const bool begin = a.data == b.data && a.dtype == b.dtype;
    return begin && (a.rows <= 1 || a.row_stride == b.row_stride) && (a.columns <= 1 || a.column_stride == b.column_stride);
}

// Sufficient for every array that slicing can make: one axis steps over whole runs of the other.
bool elements_are_distinct(const MatrixView& view) {
    const auto item = static_cast<std::ptrdiff_t>(item_size(view.dtype));
    const std::ptrdiff_t row = std::abs(view.row_stride), column = std::abs(view.column_stride);
    const auto rows = static_cast<std::ptrdiff_t>(view.rows), columns = static_cast<std::ptrdiff_t>(view.columns);
    if (columns > 1 && column < item) return false;
    if (rows > 1 && row < item) return false;
    if (rows <= 1 || columns <= 1) return true;
    return row >= (columns - 1) * column + item || column >= (rows - 1) * row + item;
}

// array_argument, with int8 among the dtypes.
ArrayArgument any_argument(py::handle array, const char* name) {
    if (py::isinstance<py::array>(array)) return from_numpy(py::reinterpret_borrow<py::array>(array), name);
    if (py::hasattr(array, "__dlpack__")) return from_dlpack(array, name);
    throw py::type_error(std::string(name) + " must be a numpy array or a tensor with __dlpack__, got " +
                         std::string(py::str(py::type::of(array).attr("__name__"))));
}

void refuse_int8(const ArrayArgument& argument, py::handle array, const char* name) {
    if (argument.view.dtype == DType::int8) refuse_dtype(name, py::str(array.attr("dtype")));
}

}  // namespace

std::string ArrayArgument::shape() const {
    const std::size_t lengths[] = {view.rows, view.columns};
    return one_dimensional ? printed_shape(lengths + 1, 1) : printed_shape(lengths, 2);
}

ArrayArgument array_argument(py::handle array, const char* name) {
    ArrayArgument argument = any_argument(array, name);
    refuse_int8(argument, array, name);
    return argument;
}

ArrayArgument output_argument(py::handle array, const char* name) {
    ArrayArgument argument = released_argument(array, name);
    refuse_int8(argument, array, name);
    return argument;
}

ArrayArgument released_argument(py::handle array, const char* name) {
    ArrayArgument argument = any_argument(array, name);
    if (!argument.writable) throw py::value_error(std::string(name) + " must be writable, got a read-only array");
    if (argument.view.size() > 0 && !elements_are_distinct(argument.view)) {
        throw py::value_error(std::string(name) + " must not overlap itself, got strides that do");
    }
    return argument;
}

void check_output_for(const ArrayArgument& x, const ArrayArgument& out) {
    if (x.one_dimensional != out.one_dimensional || x.view.rows != out.view.rows || x.view.columns != out.view.columns) {
        throw py::value_error("out must have shape " + x.shape() + " like x, got " + out.shape());
    }
    if (x.view.dtype != out.view.dtype && out.view.dtype != DType::int8) {
        throw py::type_error("out must have dtype " + name_of(x.view.dtype) + " like x, got " + name_of(out.view.dtype));
    }
    if (same_memory(x.view, out.view)) return;
    const Extent a = memory_of(x.view), b = memory_of(out.view);
    if (a.begin < b.end && b.begin < a.end) throw py::value_error("out must be x itself or not overlap it, got a partial overlap");
}

}  // namespace hushvec::python
