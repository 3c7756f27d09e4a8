// Rules and texts that arrays in host memory and on a device share.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <string>

#include "dlpack.hpp"
#include "hushvec/array.hpp"

namespace hushvec::python {

namespace py = pybind11;

std::string name_of(DType dtype);

[[noreturn]] void refuse_dtype(const char* name, const std::string& got);

// Throws TypeError, with the dtype as `array` itself names it.
DType dlpack_dtype(const dlpack::DataType& dtype, const char* name, py::handle array);

// torch can mark a view as negated and leave the sign to whoever reads it; DLPack has no word for that.
void refuse_negated(py::handle array, const char* name);

// As Python prints it.
template <class Extent>
std::string printed_shape(const Extent* shape, std::ptrdiff_t ndim) {
    std::string text = "(";
    for (std::ptrdiff_t i = 0; i < ndim; ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
    return text + (ndim == 1 ? ",)" : ")");
}

// One or two dimensions, lengths >= 0.
template <class Extent>
void check_dimensions(const Extent* shape, std::ptrdiff_t ndim, const char* name) {
    if (ndim != 1 && ndim != 2) throw py::value_error(std::string(name) + " must have 1 or 2 dimensions, got " + std::to_string(ndim));
    for (std::ptrdiff_t i = 0; i < ndim; ++i) {
        if (shape[i] < 0) throw py::value_error(std::string(name) + " must have lengths >= 0, got shape " + printed_shape(shape, ndim));
    }
}

}  // namespace hushvec::python
