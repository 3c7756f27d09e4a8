#include "hushvec/clip.hpp"

#include <pybind11/pybind11.h>

#include <string_view>
#include <utility>

#include "array_argument.hpp"
#include "bindings.hpp"
#include "law_argument.hpp"
#include "noise_source.hpp"

namespace hushvec::python {

namespace py = pybind11;

namespace {

Output output_state(bool out_is_fresh) { return out_is_fresh ? Output::fresh : Output::in_use; }

void clip_array(py::handle x, double clip_norm, py::handle out, bool out_is_fresh) {
    const ArrayArgument rows = array_argument(x, "x");
    const ArrayArgument target = output_argument(out, "out");
    check_output_for(rows, target);
    const py::gil_scoped_release unlocked;
    clip(rows.view, clip_norm, target.view, output_state(out_is_fresh));
}

float clip_and_noise_array(py::handle x, double clip_norm, double sigma, py::handle out, py::handle source, std::string_view law,
                           bool exact, bool out_is_fresh) {
    const ArrayArgument rows = array_argument(x, "x");
    const ArrayArgument target = released_argument(out, "out");
    check_output_for(rows, target);
    const Law chosen = law_named(law);
    const WipedStream stream = reserve_from(source);
    const py::gil_scoped_release unlocked;
    return clip_and_noise(stream, rows.view, clip_norm, sigma, chosen, exact, target.view, output_state(out_is_fresh));
}

}  // namespace

void bind_clip(py::module_& module) {
    define(module, "clip", &clip_array, py::arg("x"), py::arg("clip_norm"), py::arg("out"),
           py::arg("out_is_fresh") = false);
    define(module, "clip_and_noise", &clip_and_noise_array, py::arg("x"), py::arg("clip_norm"), py::arg("sigma"), py::arg("out"),
           py::arg("source"), py::arg("law"), py::arg("exact"), py::arg("out_is_fresh") = false);
    define(module, "exact_grid", [](double sigma, double clip_norm) {
        const ExactGrid grid = exact_grid(sigma, clip_norm);
        return std::pair{grid.sigma, grid.grid};
    }, py::arg("sigma"), py::arg("clip_norm"));
    define(module, "int8_grid", [](double sigma, double clip_norm) {
        const ExactGrid grid = int8_grid(sigma, clip_norm);
        return std::pair{grid.sigma, grid.grid};
    }, py::arg("sigma"), py::arg("clip_norm"));
}

}  // namespace hushvec::python
