#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings.hpp"
#include "hushvec/dispatch.hpp"
#include "hushvec/threads.hpp"

namespace hushvec::python {

namespace py = pybind11;

void bind_machine(py::module_& module) {
    module.def("backends", [] {
        py::dict found;
        found["compiled"] = compiled_backends();
        found["available"] = available_backends();
        found["active"] = active_backend();
        return found;
    });
    module.def("set_num_threads", &set_num_threads, py::arg("count"));
    module.def("get_num_threads", &num_threads);
}

}  // namespace hushvec::python
