#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "bindings.hpp"
#include "hushvec/generator.hpp"

namespace hushvec::python {

namespace py = pybind11;

namespace {

// docs/format.md section 1: the key is the seed's 32 bytes, little-endian.
Generator::Key key_of_seed(const py::int_& seed) {
    const py::object bits = seed.attr("bit_length")();
    if (seed < py::int_(0) || bits.cast<std::size_t>() > 256) {
        throw py::value_error("seed must be in [0, 2^256), got " + std::string(py::str(seed)));
    }
    const std::string bytes = py::bytes(seed.attr("to_bytes")(32, "little"));
    Generator::Key key;
    std::copy_n(reinterpret_cast<const std::uint8_t*>(bytes.data()), key.size(), key.begin());
    return key;
}

std::shared_ptr<Generator> default_generator() {
    static const auto generator = std::make_shared<Generator>(20);
    return generator;
}

}  // namespace

void bind_generator(py::module_& module) {
    py::class_<Generator, std::shared_ptr<Generator>>(module, "Generator")
        .def(py::init<int>(), py::arg("rounds") = 20)
        .def_static("unsafe_seeded", [](const py::int_& seed, int rounds) { return std::make_shared<Generator>(key_of_seed(seed), rounds); },
                    py::arg("seed"), py::arg("rounds") = 20)
        .def_property_readonly("rounds", &Generator::rounds)
        .def_property_readonly("seeded", [](const Generator& self) { return self.key_source() == KeySource::seed; })
        .def_property_readonly("key_source", [](const Generator& self) { return self.key_source() == KeySource::seed ? "seed" : "os"; })
        .def("__reduce__", [](const Generator&) -> py::object {
            throw py::type_error("a Generator cannot be copied or pickled: two copies would repeat one key stream");
        })
        .def("__copy__", [](const Generator&) -> py::object {
            throw py::type_error("a Generator cannot be copied or pickled: two copies would repeat one key stream");
        })
        .def("__deepcopy__", [](const Generator&, const py::dict&) -> py::object {
            throw py::type_error("a Generator cannot be copied or pickled: two copies would repeat one key stream");
        });
    module.def("default_generator", &default_generator);
}

}  // namespace hushvec::python
