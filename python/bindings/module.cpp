// hushvec._native._core: the table of contents of the binding. Inputs are checked and the GIL is released in bind_<topic>.cpp.
#include <pybind11/pybind11.h>

#include "bindings.hpp"
#include "hushvec/dispatch.hpp"
#include "hushvec/keystream.hpp"

PYBIND11_MODULE(_core, module, pybind11::mod_gil_used()) {
    using namespace hushvec;
    namespace py = pybind11;
    check_backend_variables();   // a wrong HUSHVEC_BACKEND or HUSHVEC_AES fails the import, with the names that would do

    module.doc() = "The compiled core of hushvec. Private: use the functions of the hushvec package.";
    module.attr("__version__") = HUSHVEC_VERSION;
    py::dict format_versions;   // in the order of the ciphers' preference
    for (const Cipher cipher : kCiphers) format_versions[name_of(cipher)] = format_version(cipher);
    module.attr("format_versions") = format_versions;

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
    python::bind_xla(module);
    python::bind_testing(module);
}
