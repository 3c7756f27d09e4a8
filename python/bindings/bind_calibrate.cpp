// Calibration: each function takes doubles, or one-dimensional contiguous float64 arrays of equal length.
//
// Broadcasting and other kinds of numbers are the business of hushvec.noise.calibration. The arrays are never converted here: an integer
// array or a strided view is a TypeError, not a silent copy. The GIL is released while arrays are computed.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <array>
#include <span>
#include <stdexcept>
#include <string>

#include "bindings.hpp"
#include "hushvec/calibrate.hpp"

namespace hushvec::python {

namespace py = pybind11;

namespace {

using In = std::span<const double>;
using Out = std::span<double>;
using Numbers = py::array_t<double, py::array::c_style | py::array::forcecast>;

// What a function takes, and their names.
template <std::size_t count>
struct Given {
    std::array<const char*, count> names;
    std::array<py::handle, count> values;

    bool has_arrays() const {
        for (const py::handle value : values) {
            if (py::isinstance<py::array>(value)) return true;
        }
        return false;
    }

    [[noreturn]] void refuse(std::size_t place) const {
        throw py::type_error(std::string("incompatible function arguments: ") + names[place] +
                             " must be a number, or, like all others, a contiguous array of float64");
    }

    double number(std::size_t place) const {
        py::detail::make_caster<double> number;
        if (!number.load(values[place], true)) refuse(place);
        return py::detail::cast_op<double>(number);
    }

    In array(std::size_t place) const {
        if (!Numbers::check_(values[place])) refuse(place);
        const auto array = py::reinterpret_borrow<Numbers>(values[place]);
        if (array.ndim() != 1) {
            const std::string dimensions = std::to_string(array.ndim());
            throw std::invalid_argument(std::string(names[place]).append(" must have 1 dimension, got ").append(dimensions));
        }
        return {array.data(), static_cast<std::size_t>(array.size())};
    }
};

// A new array, filled by compute(out) without the GIL.
template <class Compute>
Numbers fill(std::size_t length, Compute compute) {
    Numbers result(static_cast<py::ssize_t>(length));
    const Out out(result.mutable_data(), length);
    const py::gil_scoped_release release;
    compute(out);
    return result;
}

using OfThree = double (*)(double, double, double);
using OfThreeArrays = void (*)(In, In, In, Out);

py::object of_three(const Given<3>& given, OfThree scalar, OfThreeArrays elements) {
    if (!given.has_arrays()) return py::float_(scalar(given.number(0), given.number(1), given.number(2)));
    const In a = given.array(0), b = given.array(1), c = given.array(2);
    return fill(a.size(), [&](Out out) { elements(a, b, c, out); });
}

py::object delta_of(py::handle epsilon, py::handle sigma, py::handle sensitivity) {
    return of_three({{"epsilon", "sigma", "sensitivity"}, {epsilon, sigma, sensitivity}}, gaussian_delta, gaussian_delta);
}

py::object epsilon_of(py::handle delta, py::handle sigma, py::handle sensitivity) {
    return of_three({{"delta", "sigma", "sensitivity"}, {delta, sigma, sensitivity}}, gaussian_epsilon, gaussian_epsilon);
}

py::object sigma_of(py::handle epsilon, py::handle delta, py::handle sensitivity) {
    return of_three({{"epsilon", "delta", "sensitivity"}, {epsilon, delta, sensitivity}}, gaussian_sigma, gaussian_sigma);
}

py::object classical_sigma_of(py::handle epsilon, py::handle delta, py::handle sensitivity, bool allow_unproven) {
    const Given<3> given = {{"epsilon", "delta", "sensitivity"}, {epsilon, delta, sensitivity}};
    if (!given.has_arrays()) return py::float_(gaussian_sigma_classical(given.number(0), given.number(1), given.number(2), allow_unproven));
    const In e = given.array(0), p = given.array(1), d = given.array(2);
    return fill(e.size(), [&](Out out) { gaussian_sigma_classical(e, p, d, out, allow_unproven); });
}

py::object laplace_scale_of(py::handle epsilon, py::handle sensitivity) {
    const Given<2> given = {{"epsilon", "sensitivity"}, {epsilon, sensitivity}};
    if (!given.has_arrays()) return py::float_(laplace_scale(given.number(0), given.number(1)));
    const In e = given.array(0), d = given.array(1);
    return fill(e.size(), [&](Out out) { laplace_scale(e, d, out); });
}

}  // namespace

void bind_calibrate(py::module_& m) {
    define(m, "gaussian_delta", &delta_of, py::arg("epsilon"), py::arg("sigma"), py::arg("sensitivity"),
           "delta that noise sigma gives at epsilon, never too small.");
    define(m, "gaussian_epsilon", &epsilon_of, py::arg("delta"), py::arg("sigma"), py::arg("sensitivity"),
           "Smallest epsilon that noise sigma gives at delta, never too small.");
    define(m, "gaussian_sigma", &sigma_of, py::arg("epsilon"), py::arg("delta"), py::arg("sensitivity"),
           "Smallest sigma that gives (epsilon, delta), never too small.");
    define(m, "gaussian_sigma_classical", &classical_sigma_of, py::arg("epsilon"), py::arg("delta"), py::arg("sensitivity"),
           py::arg("allow_unproven") = false, "sensitivity * sqrt(2 ln(1.25/delta)) / epsilon; proved for epsilon < 1 only.");
    define(m, "laplace_scale", &laplace_scale_of, py::arg("epsilon"), py::arg("sensitivity"), "sensitivity / epsilon, rounded up.");
}

}  // namespace hushvec::python
