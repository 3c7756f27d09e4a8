#pragma once

#include <pybind11/pybind11.h>

namespace hushvec::python {

void bind_device(pybind11::module_& module);
void bind_discrete_device(pybind11::module_& module);
void bind_launch(pybind11::module_& module);
void bind_privunit_device(pybind11::module_& module);

}  // namespace hushvec::python
