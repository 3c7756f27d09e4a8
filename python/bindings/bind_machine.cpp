#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "bindings.hpp"
#include "hushvec/dispatch.hpp"
#include "hushvec/threads.hpp"

namespace hushvec::python {

namespace py = pybind11;

namespace {

py::dict choice(const std::vector<std::string>& compiled, const std::vector<std::string>& available, const std::string& active) {
    py::dict names;
    names["compiled"] = compiled;
    names["available"] = available;
    names["active"] = active;
    return names;
}

}  // namespace

void bind_machine(py::module_& module) {
    define(module, "backends", [] {
        py::dict found = choice(compiled_backends(), available_backends(), active_backend());
        found["aes"] = choice(compiled_aes(), available_aes(), active_aes_name());
        found["default_cipher"] = name_of(default_cipher());
        return found;
    });
    define(module, "set_num_threads", &set_num_threads, py::arg("count"));
    define(module, "get_num_threads", &num_threads);
}

}  // namespace hushvec::python
