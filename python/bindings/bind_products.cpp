#include <pybind11/pybind11.h>

#include <bit>
#include <string>

#include "array_argument.hpp"
#include "bindings.hpp"
#include "hushvec/hadamard.hpp"
#include "hushvec/inner_products.hpp"

namespace hushvec::python {

namespace py = pybind11;

namespace {

void require_rows(const ArrayArgument& array, const char* name, DType dtype) {
    if (array.view.dtype != dtype) throw py::type_error(std::string(name) + " must have the dtype of a");
    if (array.one_dimensional) throw py::value_error(std::string(name) + " must have 2 dimensions, got shape " + array.shape());
    if (!array.view.rows_are_contiguous() || (array.view.rows > 1 && array.view.row_stride < 0)) {
        throw py::value_error(std::string(name) + " must have contiguous rows, one after the other");
    }
}

void inner_products_array(py::handle a, py::handle b, py::handle out) {
    const ArrayArgument left = array_argument(a, "a");
    const ArrayArgument right = array_argument(b, "b");
    const ArrayArgument target = output_argument(out, "out");
    const DType dtype = left.view.dtype;
    if (dtype != DType::float32 && dtype != DType::float64) throw py::type_error("a must be float32 or float64");
    require_rows(left, "a", dtype);
    require_rows(right, "b", dtype);
    require_rows(target, "out", dtype);
    if (right.view.columns != left.view.columns) throw py::value_error("b must have the columns of a, " + left.shape() + ", got shape " + right.shape());
    if (target.view.rows != left.view.rows || target.view.columns != right.view.rows) {
        throw py::value_error("out must have a row for each row of a and a column for each row of b, got shape " + target.shape());
    }
    const py::gil_scoped_release unlocked;
    inner_products(left.view, right.view, target.view);
}

void hadamard_array(py::handle x) {
    const ArrayArgument rows = output_argument(x, "x");
    if (rows.view.dtype != DType::float64) throw py::type_error("x must be float64");
    if (!rows.view.rows_are_contiguous()) throw py::value_error("x must have contiguous rows");
    if (!std::has_single_bit(rows.view.columns)) throw py::value_error("x must have a power of two of columns, got shape " + rows.shape());
    const py::gil_scoped_release unlocked;
    hadamard_transform(rows.view);
}

}  // namespace

void bind_products(py::module_& module) {
    define(module, "inner_products", &inner_products_array, py::arg("a"), py::arg("b"), py::arg("out"));
    define(module, "hadamard_transform", &hadamard_array, py::arg("x"));
}

}  // namespace hushvec::python
