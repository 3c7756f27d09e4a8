#include "hushvec/clip.hpp"

#include <pybind11/pybind11.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "array_argument.hpp"
#include "bindings.hpp"
#include "law_argument.hpp"
#include "noise_source.hpp"

namespace hushvec::python {

namespace py = pybind11;

namespace {

Output output_state(bool out_is_fresh) { return out_is_fresh ? Output::fresh : Output::in_use; }

// The parts, runs of elements, one after the other in `out`, a run of as many of the same dtype.
void join_arrays(const py::sequence& parts, py::handle out) {
    const ArrayArgument target = output_argument(out, "out");
    std::vector<ArrayArgument> arguments;
    std::vector<MatrixView> views;
    std::size_t elements = 0;
    for (std::size_t part = 0; part < parts.size(); ++part) {
        const std::string name = "parts[" + std::to_string(part) + "]";
        arguments.push_back(array_argument(parts[part], name.c_str()));
        const MatrixView& view = views.emplace_back(arguments.back().view);
        if (view.rows != 1 || view.dtype != target.view.dtype) throw py::type_error(name + " must be one run of elements of the dtype of out");
        elements += view.columns;
    }
    if (target.view.rows != 1 || !target.view.is_flat() || target.view.columns != elements) {
        throw py::value_error("out must be one run of " + std::to_string(elements) + " elements, got shape " + target.shape());
    }
    const py::gil_scoped_release unlocked;
    join_columns(views, target.view);
}

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
    define(module, "join", &join_arrays, py::arg("parts"), py::arg("out"));
    define(module, "clip", &clip_array, py::arg("x"), py::arg("clip_norm"), py::arg("out"),
           py::arg("out_is_fresh") = false);
    define(module, "clip_and_noise", &clip_and_noise_array, py::arg("x"), py::arg("clip_norm"), py::arg("sigma"), py::arg("out"),
           py::arg("source"), py::arg("law"), py::arg("exact"), py::arg("out_is_fresh") = false);
    define(module, "exact_grid", [](double sigma, double clip_norm, bool half_words) {
        const ExactGrid grid = exact_grid(sigma, clip_norm, half_words);
        return std::pair{grid.sigma, grid.grid};
    }, py::arg("sigma"), py::arg("clip_norm"), py::arg("half_words") = false);
    define(module, "int8_grid", [](double sigma, double clip_norm) {
        const ExactGrid grid = int8_grid(sigma, clip_norm);
        return std::pair{grid.sigma, grid.grid};
    }, py::arg("sigma"), py::arg("clip_norm"));
}

}  // namespace hushvec::python
