// A law of noise by its name.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <string_view>

#include "hushvec/noise.hpp"

namespace hushvec::python {

// Throws ValueError for another name.
inline Law law_named(std::string_view name) {
    if (name == "gaussian") return Law::gaussian;
    if (name == "laplacian") return Law::laplacian;
    if (name == "l2_laplace") return Law::l2_laplace;
    throw pybind11::value_error("law must be gaussian, laplacian or l2_laplace, got " + std::string(name));
}

}  // namespace hushvec::python
