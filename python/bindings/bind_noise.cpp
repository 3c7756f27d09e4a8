#include <pybind11/pybind11.h>

#include "array_argument.hpp"
#include "bindings.hpp"
#include "hushvec/generator.hpp"
#include "hushvec/noise.hpp"

namespace hushvec::python {

namespace py = pybind11;

namespace {

void fill(Law law, py::handle out, double scale, Generator& generator) {
    const ArrayArgument target = output_argument(out, "out");
    const py::gil_scoped_release unlocked;
    fill_noise(generator.reserve(), law, scale, target.view);
}

}  // namespace

void bind_noise(py::module_& module) {
    module.def("fill_gaussian", [](py::handle out, double sigma, Generator& generator) { fill(Law::gaussian, out, sigma, generator); },
               py::arg("out"), py::arg("sigma"), py::arg("generator"));
    module.def("fill_laplacian", [](py::handle out, double scale, Generator& generator) { fill(Law::laplacian, out, scale, generator); },
               py::arg("out"), py::arg("scale"), py::arg("generator"));
    module.def("fill_l2_laplace", [](py::handle out, double scale, Generator& generator) { fill(Law::l2_laplace, out, scale, generator); },
               py::arg("out"), py::arg("scale"), py::arg("generator"));
}

}  // namespace hushvec::python
