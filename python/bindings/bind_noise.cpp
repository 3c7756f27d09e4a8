#include <pybind11/pybind11.h>

#include "array_argument.hpp"
#include "bindings.hpp"
#include "hushvec/noise.hpp"
#include "noise_source.hpp"

namespace hushvec::python {

namespace py = pybind11;

namespace {

void fill(Law law, py::handle out, double scale, py::handle source) {
    const ArrayArgument target = output_argument(out, "out");
    const WipedStream stream = reserve_from(source);
    const py::gil_scoped_release unlocked;
    fill_noise(stream, law, scale, target.view);
}

}  // namespace

void bind_noise(py::module_& module) {
    define(module, "fill_gaussian", [](py::handle out, double sigma, py::handle source) { fill(Law::gaussian, out, sigma, source); },
           py::arg("out"), py::arg("sigma"), py::arg("source"));
    define(module, "fill_laplacian", [](py::handle out, double scale, py::handle source) { fill(Law::laplacian, out, scale, source); },
           py::arg("out"), py::arg("scale"), py::arg("source"));
    define(module, "fill_l2_laplace", [](py::handle out, double scale, py::handle source) { fill(Law::l2_laplace, out, scale, source); },
           py::arg("out"), py::arg("scale"), py::arg("source"));
}

}  // namespace hushvec::python
