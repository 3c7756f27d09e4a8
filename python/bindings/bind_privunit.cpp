#include "hushvec/privunit.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <utility>

#include "array_argument.hpp"
#include "bindings.hpp"
#include "noise_source.hpp"

namespace hushvec::python {

namespace py = pybind11;

namespace {

void privunit_of_rows(py::handle x, double cap_probability, double threshold, double sigma, py::handle out, py::handle source,
                    bool out_is_fresh) {
    const ArrayArgument rows = array_argument(x, "x");
    const ArrayArgument target = released_argument(out, "out");
    check_output_for(rows, target);
    const WipedStream stream = reserve_from(source);
    const py::gil_scoped_release unlocked;
    privunit(stream, rows.view, {cap_probability, threshold}, sigma, target.view, out_is_fresh ? Output::fresh : Output::in_use);
}

}  // namespace

void bind_privunit(py::module_& module) {
    define(module, "privunit", &privunit_of_rows, py::arg("x"), py::arg("cap_probability"), py::arg("threshold"), py::arg("sigma"),
           py::arg("out"), py::arg("source"), py::arg("out_is_fresh") = false);
    define(module, "privunit_law", [](double epsilon, std::optional<double> threshold) {
        const PrivUnitLaw law = threshold ? privunit_law(epsilon, *threshold) : privunit_law(epsilon);
        return std::pair{law.cap_probability, law.threshold};
    }, py::arg("epsilon"), py::arg("threshold") = py::none());
    define(module, "privunit_epsilon", [](double cap_probability, double threshold) {
        return privunit_epsilon({cap_probability, threshold});
    }, py::arg("cap_probability"), py::arg("threshold"));
    define(module, "privunit_mean", [](double cap_probability, double threshold) {
        return privunit_mean({cap_probability, threshold});
    }, py::arg("cap_probability"), py::arg("threshold"));
    define(module, "privunit_grid", [](double sigma) {
        const ExactGrid grid = privunit_grid(sigma);
        return std::pair{grid.sigma, grid.grid};
    }, py::arg("sigma"));
    define(module, "privunit_int8_grid", [](double sigma, double threshold) {
        const ExactGrid grid = privunit_int8_grid(sigma, threshold);
        return std::pair{grid.sigma, grid.grid};
    }, py::arg("sigma"), py::arg("threshold"));
}

}  // namespace hushvec::python
