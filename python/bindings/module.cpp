// hushvec._native._core: the table of contents of the binding. Inputs are checked and the GIL is released in bind_<topic>.cpp.
#include <pybind11/pybind11.h>

#include "bindings.hpp"
#include "hushvec/dispatch.hpp"
#include "hushvec/keystream.hpp"

PYBIND11_MODULE(_core, module, pybind11::mod_gil_used()) {
    using namespace hushvec;
    check_backend_variable();   // a wrong HUSHVEC_BACKEND fails the import, with the names that would do

    module.doc() = "The compiled core of hushvec. Private: use the functions of the hushvec package.";
    module.attr("__version__") = HUSHVEC_VERSION;
    module.attr("format_version") = kFormatVersion;

    python::bind_generator(module);
    python::bind_noise(module);
    python::bind_clip(module);
    python::bind_clipped_sum(module);
    python::bind_privunit(module);
    python::bind_products(module);
    python::bind_keyed_rows(module);
    python::bind_calibrate(module);
    python::bind_discrete(module);
    python::bind_collect(module);
    python::bind_machine(module);
    python::bind_memory(module);
    python::bind_testing(module);
}
