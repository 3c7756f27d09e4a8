#include "hushvec/keyed_rows.hpp"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <string>

#include "array_argument.hpp"
#include "bindings.hpp"
#include "hushvec/unit_rows.hpp"
#include "hushvec/wipe.hpp"
#include "noise_source.hpp"

namespace hushvec::python {

namespace py = pybind11;

namespace {

constexpr py::ssize_t kPlaceBytes = 40;
using Places = py::array_t<std::uint8_t, py::array::c_style>;

// A copy of the key, wiped when it goes.
struct KeyedRows {
    RowKeySource source;

    KeyedRows(const py::bytes& key, const Places& places, const py::object& cipher, std::size_t rows) {
        const std::string_view bytes = key;
        if (bytes.size() != source.key.size()) throw py::value_error("key must have 32 bytes, got " + std::to_string(bytes.size()));
        if (places.ndim() != 2 || static_cast<std::size_t>(places.shape(0)) != rows || places.shape(1) != kPlaceBytes) {
            throw py::value_error("places must have shape (" + std::to_string(rows) + ", 40)");
        }
        std::copy(bytes.begin(), bytes.end(), source.key.begin());
        source.places = places.data();
        source.cipher = cipher_named(cipher);
    }
    ~KeyedRows() { wipe(source.key.data(), source.key.size()); }
    KeyedRows(const KeyedRows&) = delete;
    KeyedRows& operator=(const KeyedRows&) = delete;
};

void clip_and_noise_array(py::handle x, double clip_norm, double sigma, py::handle out, const py::bytes& key, const Places& places,
                          const py::object& cipher, const std::string& law, bool half_words) {
    const ArrayArgument rows = array_argument(x, "x");
    const ArrayArgument target = output_argument(out, "out");
    check_output_for(rows, target);
    if (law != "gaussian" && law != "laplacian") throw py::value_error("law must be gaussian or laplacian, got " + law);
    KeyedRows keyed(key, places, cipher, rows.view.rows);
    keyed.source.half_words = half_words;
    const py::gil_scoped_release unlocked;
    clip_and_noise_keyed(keyed.source, rows.view, clip_norm, sigma, law == "gaussian" ? Law::gaussian : Law::laplacian, target.view);
}

void privunit_array(py::handle x, double cap_probability, double threshold, double sigma, py::handle out, const py::bytes& key,
                    const Places& places, const py::object& cipher) {
    const ArrayArgument rows = array_argument(x, "x");
    const ArrayArgument target = output_argument(out, "out");
    check_output_for(rows, target);
    const KeyedRows keyed(key, places, cipher, rows.view.rows);
    const py::gil_scoped_release unlocked;
    privunit_keyed(keyed.source, rows.view, {cap_probability, threshold}, sigma, target.view);
}

void unit_rows_array(py::handle x, py::handle out) {
    const ArrayArgument rows = array_argument(x, "x");
    const ArrayArgument target = output_argument(out, "out");
    check_output_for(rows, target);
    const py::gil_scoped_release unlocked;
    unit_rows(rows.view, target.view);
}

}  // namespace

void bind_keyed_rows(py::module_& module) {
    define(module, "clip_and_noise_keyed", &clip_and_noise_array, py::arg("x"), py::arg("clip_norm"), py::arg("sigma"), py::arg("out"),
           py::arg("key"), py::arg("places").noconvert(), py::arg("cipher"), py::arg("law"), py::arg("half_words") = false);
    define(module, "privunit_keyed", &privunit_array, py::arg("x"), py::arg("cap_probability"), py::arg("threshold"), py::arg("sigma"),
           py::arg("out"), py::arg("key"), py::arg("places").noconvert(), py::arg("cipher"));
    define(module, "unit_rows", &unit_rows_array, py::arg("x"), py::arg("out"));
}

}  // namespace hushvec::python
