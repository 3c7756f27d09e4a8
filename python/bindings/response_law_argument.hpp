// The law of randomized response as Python passes it: what response_law returned, made once and used for many calls.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <utility>

#include "hushvec/discrete.hpp"
#include "noise/float64_functions.hpp"

namespace hushvec::python {

namespace py = pybind11;

inline ResponseLaw response_law_argument(std::uint64_t labels, const std::pair<std::uint64_t, std::uint64_t>& law) {
    const auto [truth, other] = law;
    const bool fits = labels >= 2 && labels <= kMostLabels && other >= 1 && Uint128{other} * labels <= Uint128{1} << 64;
    if (!fits || truth != 0 - (labels - 1) * other) throw py::value_error("law must be that of " + std::to_string(labels) + " labels");
    return {labels, truth, other};
}

}  // namespace hushvec::python
