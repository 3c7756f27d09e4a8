// hushvec._native._cuda: the table of contents of the CUDA binding. Importing it touches no driver.
#include <pybind11/pybind11.h>

#include "bindings.hpp"

PYBIND11_MODULE(_cuda, module, pybind11::mod_gil_used()) {
    module.doc() = "The CUDA backend of hushvec. Private: use the functions of the hushvec package.";
    module.attr("__version__") = HUSHVEC_VERSION;

    hushvec::python::bind_device(module);
    hushvec::python::bind_discrete_device(module);
    hushvec::python::bind_launch(module);
    hushvec::python::bind_privunit_device(module);
}
