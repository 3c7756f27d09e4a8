#pragma once

#include <pybind11/pybind11.h>

#include "function.hpp"
#include "hushvec/float_modes.hpp"

namespace hushvec::python {

// For what pybind11 defines and computes: in the floating-point modes of the core, whatever the calling thread has set.
using InFloatModes = pybind11::call_guard<FloatModes>;

void bind_generator(pybind11::module_& module);
void bind_noise(pybind11::module_& module);
void bind_clip(pybind11::module_& module);
void bind_clipped_sum(pybind11::module_& module);
void bind_privunit(pybind11::module_& module);
void bind_products(pybind11::module_& module);
void bind_keyed_rows(pybind11::module_& module);
void bind_calibrate(pybind11::module_& module);
void bind_discrete(pybind11::module_& module);
void bind_collect(pybind11::module_& module);
void bind_machine(pybind11::module_& module);
void bind_memory(pybind11::module_& module);
void bind_xla(pybind11::module_& module);
void bind_testing(pybind11::module_& module);

}  // namespace hushvec::python
