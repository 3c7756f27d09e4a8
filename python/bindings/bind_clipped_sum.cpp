#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "array_argument.hpp"
#include "bindings.hpp"
#include "hushvec/clipped_sum.hpp"
#include "noise_source.hpp"

namespace hushvec::python {

namespace py = pybind11;

namespace {

Clipping clipping_named(const std::string& name) {
    if (name == "exact") return Clipping::exact;
    if (name == "estimated") return Clipping::estimated;
    throw py::value_error("clipping must be exact or estimated, got " + name);
}

// One matrix for each part of rows.
struct Parts {
    std::vector<ArrayArgument> arguments;
    std::vector<MatrixView> views;
};

Parts parts_of(const py::sequence& parts) {
    Parts found;
    for (std::size_t part = 0; part < parts.size(); ++part) {
        const std::string name = "parts[" + std::to_string(part) + "]";
        found.arguments.push_back(array_argument(parts[part], name.c_str()));
        if (found.arguments.back().one_dimensional) throw py::value_error(name + " must have 2 dimensions, got 1");
        found.views.push_back(found.arguments.back().view);
    }
    return found;
}

void add(ClippedSum& sum, const py::sequence& parts) {
    const Parts given = parts_of(parts);
    const py::gil_scoped_release unlocked;
    sum.add(given.views);
}

using Doubles = py::array_t<double, py::array::c_style | py::array::forcecast>;

void add_scaled(ClippedSum& sum, const py::sequence& parts, const Doubles& squares, const Doubles& factors) {
    const Parts given = parts_of(parts);
    const std::vector<double> of_rows(squares.data(), squares.data() + squares.size()), by(factors.data(), factors.data() + factors.size());
    const py::gil_scoped_release unlocked;
    sum.add_scaled(given.views, of_rows, by);
}

// float64[parts, rows].
py::array_t<double> squares_of(const py::sequence& parts) {
    const Parts given = parts_of(parts);
    if (given.views.empty()) throw py::value_error("parts must have at least 1 array, got none");
    for (const MatrixView& part : given.views) {
        if (part.rows != given.views[0].rows) throw py::value_error("parts must have one number of rows");
    }
    std::vector<double> squares;
    {
        const py::gil_scoped_release unlocked;
        squares = squares_of_parts(given.views);
    }
    py::array_t<double> result({given.views.size(), given.views[0].rows});
    std::copy(squares.begin(), squares.end(), result.mutable_data());
    return result;
}

void add_grouped(ClippedSum& sum, py::handle rows, const py::array_t<std::uint32_t, py::array::c_style>& groups) {
    const ArrayArgument argument = array_argument(rows, "rows");
    if (argument.one_dimensional) throw py::value_error("rows must have 2 dimensions, got 1");
    if (groups.ndim() != 1 || static_cast<std::size_t>(groups.size()) != argument.view.rows) {
        throw py::value_error("groups must have " + std::to_string(argument.view.rows) + " elements, one for each row");
    }
    const std::uint32_t* of_rows = groups.data();
    const py::gil_scoped_release unlocked;
    sum.add_grouped(argument.view, of_rows);
}

// Flat float32 memory for every part, of its length.
struct Targets {
    std::vector<ArrayArgument> arguments;
    std::vector<float*> memory;
};

Targets targets_of(const ClippedSum& sum, const py::sequence& out) {
    Targets targets;
    if (out.size() != sum.parts()) throw py::value_error("out must have " + std::to_string(sum.parts()) + " arrays, got " + std::to_string(out.size()));
    for (std::size_t part = 0; part < sum.parts(); ++part) {   // of a list that another thread may change
        const std::string name = "out[" + std::to_string(part) + "]";
        targets.arguments.push_back(output_argument(out[part], name.c_str()));
        const MatrixView& view = targets.arguments.back().view;
        const std::size_t length = sum.columns(part);
        if (view.dtype != DType::float32) throw py::type_error(name + " must be float32");
        if (!targets.arguments.back().one_dimensional || view.columns != length || !view.is_flat()) {
            throw py::value_error(name + " must be one run of " + std::to_string(length) + " elements, got shape " +
                                  targets.arguments.back().shape());
        }
        targets.memory.push_back(reinterpret_cast<float*>(view.data));
    }
    return targets;
}

void release(ClippedSum& sum, const py::sequence& out, py::handle source) {
    const Targets targets = targets_of(sum, out);
    for (std::size_t part = 0; part < sum.parts(); ++part) {
        if (sum.has_noise()) {
            const WipedStream stream = reserve_from(source);
            const py::gil_scoped_release unlocked;
            sum.release(part, stream, targets.memory[part]);
        } else {
            sum.release(part, KeyStream{}, targets.memory[part]);
        }
    }
    sum.reset();
}

// Streams that were reserved, one for each coefficient; each part begins at a group of its own.
void release_correlated(ClippedSum& sum, const py::sequence& out, const py::sequence& sources, const std::vector<float>& coefficients) {
    const Targets targets = targets_of(sum, out);
    if (sources.size() != coefficients.size()) throw py::value_error("sources must be as many as coefficients");
    std::vector<std::unique_ptr<WipedStream>> streams;
    std::vector<NoiseTerm> terms;
    for (std::size_t term = 0; term < coefficients.size(); ++term) {
        streams.emplace_back(new WipedStream(reserve_from(sources[term])));
        terms.push_back({streams.back().get(), coefficients[term]});
    }
    const py::gil_scoped_release unlocked;
    std::uint64_t first_group = 0;
    for (std::size_t part = 0; part < sum.parts(); ++part) {
        sum.release(part, terms, first_group, targets.memory[part]);
        first_group += (sum.columns(part) + kGroupSamples - 1) / kGroupSamples;
    }
    sum.reset();
}

// The exact sums.
py::list units(const ClippedSum& sum) {
    py::list parts;
    for (std::size_t part = 0; part < sum.parts(); ++part) {
        const std::vector<double> units = sum.units(part);
        py::array_t<double> copy(static_cast<py::ssize_t>(units.size()));
        std::copy(units.begin(), units.end(), copy.mutable_data());
        parts.append(copy);
    }
    return parts;
}

void replace(ClippedSum& sum, std::size_t rows, const std::vector<py::array_t<double, py::array::c_style | py::array::forcecast>>& units) {
    std::vector<std::vector<double>> copies;
    for (const auto& part : units) copies.emplace_back(part.data(), part.data() + part.size());
    sum.replace(rows, copies);
}

py::array_t<double> release_whole(const py::array_t<std::int64_t, py::array::c_style>& sums, double unit, double sigma, py::handle source) {
    py::array_t<double> out(sums.size());
    const std::int64_t* from = sums.data();
    double* to = out.mutable_data();
    const auto count = static_cast<std::size_t>(sums.size());
    const WipedStream stream = reserve_from(source);
    const py::gil_scoped_release unlocked;
    release_whole_sums(from, count, unit, sigma, stream, to);
    return out;
}

}  // namespace

void bind_clipped_sum(py::module_& module) {
    py::class_<ClippedSum> sum(module, "ClippedSum", py::is_final());
    sum.def(py::init([](std::vector<std::size_t> columns, double clip_norm, double sigma, std::size_t most_rows, const std::string& clipping) {
                 return std::make_unique<ClippedSum>(std::move(columns), clip_norm, sigma, most_rows, clipping_named(clipping));
             }),
             py::arg("columns"), py::arg("clip_norm"), py::arg("sigma"), py::arg("most_rows"), py::arg("clipping"), InFloatModes());
    define(sum, "add", &add, py::arg("parts"));
    define(sum, "add_scaled", &add_scaled, py::arg("parts"), py::arg("squares"), py::arg("factors"));
    define(sum, "add_grouped", &add_grouped, py::arg("rows"), py::arg("groups"));
    define(sum, "release", &release, py::arg("out"), py::arg("source"));
    define(sum, "release_correlated", &release_correlated, py::arg("out"), py::arg("sources"), py::arg("coefficients"));
    define(sum, "_units", &units);
    define(sum, "_replace", &replace, py::arg("rows"), py::arg("units"));
    define(sum, "reset", [](ClippedSum& self) { self.reset(); });
    sum.def_property_readonly("rows", &ClippedSum::rows).def_property_readonly("corrected_rows", &ClippedSum::corrected_rows);
    define(module, "squares_of_parts", &squares_of, py::arg("parts"));
    define(module, "release_whole_sums", &release_whole, py::arg("sums"), py::arg("unit"), py::arg("sigma"), py::arg("source"));
    define(module, "sum_unit", &sum_unit, py::arg("clip_norm"));
}

}  // namespace hushvec::python
