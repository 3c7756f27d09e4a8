// Turns a Python array into a MatrixView without a copy: numpy arrays natively, everything else through DLPack.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <string>

#include "hushvec/array.hpp"

namespace hushvec::python {

namespace py = pybind11;

// Keeps the array alive as long as the view is used.
struct ArrayArgument {
    MatrixView view;
    bool one_dimensional;
    bool writable;
    py::object owner;

    std::string shape() const;   // as Python prints it, for messages
};

// Throws TypeError (kind, dtype, device) or ValueError (dimensions), naming the argument.
ArrayArgument array_argument(py::handle array, const char* name);

// An array that will be written: must be writable and must not overlap itself.
ArrayArgument output_argument(py::handle array, const char* name);

// output_argument, or an array of int8.
ArrayArgument released_argument(py::handle array, const char* name);

// Shape and dtype of out are those of x, but that it may be int8; the memory is x's own or disjoint from it.
void check_output_for(const ArrayArgument& x, const ArrayArgument& out);

}  // namespace hushvec::python
