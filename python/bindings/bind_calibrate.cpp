// Calibration: each function takes doubles, or one-dimensional contiguous float64 arrays of equal length.
//
// Broadcasting and other kinds of numbers are the business of hushvec.noise.calibration. The arrays are never converted here
// (noconvert): an integer array or a strided view is a TypeError, not a silent copy. The GIL is released while arrays
// are computed.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <span>
#include <stdexcept>
#include <string>

#include "bindings.hpp"
#include "hushvec/calibrate.hpp"

namespace py = pybind11;

namespace {

using Array = py::array_t<double, py::array::c_style | py::array::forcecast>;

std::span<const double> read(const char* name, const Array& array) {
    if (array.ndim() != 1) {
        const std::string dimensions = std::to_string(array.ndim());
        throw std::invalid_argument(std::string(name).append(" must have 1 dimension, got ").append(dimensions));
    }
    return {array.data(), static_cast<std::size_t>(array.size())};
}

// A new array, filled by compute(out) without the GIL.
template <class Compute>
Array fill(std::size_t length, Compute compute) {
    Array result(static_cast<py::ssize_t>(length));
    const std::span<double> out(result.mutable_data(), length);
    const py::gil_scoped_release release;
    compute(out);
    return result;
}

template <class Scalar, class Elements>
void bind_triple(py::module_& m, const char* function, const char* first, const char* second, const char* doc,
                 Scalar scalar, Elements elements) {
    hushvec::python::define(m, function, scalar, py::arg(first), py::arg(second), py::arg("sensitivity"), doc);
    hushvec::python::define(m, function,
        [=](const Array& a, const Array& b, const Array& c) {
            const auto x = read(first, a);
            const auto y = read(second, b);
            const auto z = read("sensitivity", c);
            return fill(x.size(), [&](std::span<double> out) { elements(x, y, z, out); });
        },
        py::arg(first).noconvert(), py::arg(second).noconvert(), py::arg("sensitivity").noconvert());
}

}  // namespace

namespace hushvec::python {

void bind_calibrate(py::module_& m) {
    using In = std::span<const double>;
    using Out = std::span<double>;

    bind_triple(
        m, "gaussian_delta", "epsilon", "sigma", "delta that noise sigma gives at epsilon, never too small.",
        [](double e, double s, double d) { return hushvec::gaussian_delta(e, s, d); },
        [](In e, In s, In d, Out out) { hushvec::gaussian_delta(e, s, d, out); });
    bind_triple(
        m, "gaussian_epsilon", "delta", "sigma", "Smallest epsilon that noise sigma gives at delta, never too small.",
        [](double p, double s, double d) { return hushvec::gaussian_epsilon(p, s, d); },
        [](In p, In s, In d, Out out) { hushvec::gaussian_epsilon(p, s, d, out); });
    bind_triple(
        m, "gaussian_sigma", "epsilon", "delta", "Smallest sigma that gives (epsilon, delta), never too small.",
        [](double e, double p, double d) { return hushvec::gaussian_sigma(e, p, d); },
        [](In e, In p, In d, Out out) { hushvec::gaussian_sigma(e, p, d, out); });

    define(m, "gaussian_sigma_classical",
           py::overload_cast<double, double, double, bool>(&hushvec::gaussian_sigma_classical), py::arg("epsilon"),
           py::arg("delta"), py::arg("sensitivity"), py::arg("allow_unproven") = false,
           "sensitivity * sqrt(2 ln(1.25/delta)) / epsilon; proved for epsilon < 1 only.");
    define(m, "gaussian_sigma_classical",
        [](const Array& epsilon, const Array& delta, const Array& sensitivity, bool allow_unproven) {
            const auto e = read("epsilon", epsilon);
            const auto p = read("delta", delta);
            const auto d = read("sensitivity", sensitivity);
            return fill(e.size(), [&](Out out) { hushvec::gaussian_sigma_classical(e, p, d, out, allow_unproven); });
        },
        py::arg("epsilon").noconvert(), py::arg("delta").noconvert(), py::arg("sensitivity").noconvert(),
        py::arg("allow_unproven") = false);

    define(m, "laplace_scale", py::overload_cast<double, double>(&hushvec::laplace_scale), py::arg("epsilon"),
           py::arg("sensitivity"), "sensitivity / epsilon, rounded up.");
    define(m, "laplace_scale",
        [](const Array& epsilon, const Array& sensitivity) {
            const auto e = read("epsilon", epsilon);
            const auto d = read("sensitivity", sensitivity);
            return fill(e.size(), [&](Out out) { hushvec::laplace_scale(e, d, out); });
        },
        py::arg("epsilon").noconvert(), py::arg("sensitivity").noconvert());
}

}  // namespace hushvec::python
