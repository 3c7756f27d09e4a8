#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "bindings.hpp"
#include "hushvec/generator.hpp"
#include "key_capsule.hpp"
#include "noise_source.hpp"

namespace hushvec::python {

namespace py = pybind11;

namespace {

constexpr const char* kGeneratorDoc =
    "A key stream: ChaCha with a key of its own, one nonce a call.\n\n"
    "Args:\n"
    "    rounds: 20 (as in RFC 8439), 12 or 8. No attack on 8 is known; fewer rounds are faster.\n\n"
    "Raises:\n"
    "    TypeError: rounds is no whole number, or the generator is copied or pickled.\n"
    "    ValueError: other rounds.\n\n"
    "Guarantees:\n"
    "    The key comes from the operating system and stays in locked memory (docs/secure_memory.md). Calls from any number of threads never share a nonce, and a forked child\n"
    "    draws a new key, so no part of a stream is used twice. Every call adds 256 fresh bits from the operating system to the key: memory that is restored from a\n"
    "    snapshot repeats no noise either (docs/secure_memory.md says what that rests on).\n\n"
    "Reference:\n"
    "    Bernstein, \"ChaCha, a variant of Salsa20\" (2008); docs/format.md section 1.\n\n"
    "Example:\n"
    "    >>> import hushvec as hv\n"
    "    >>> hv.gaussian_noise(384, generator=hv.Generator(rounds=12)).shape\n"
    "    (384,)";

constexpr const char* kUnsafeSeededDoc =
    "A key stream that anyone with the seed can repeat: for tests and reproducible studies, never for a release.\n\n"
    "Args:\n"
    "    seed: the key as a whole number in [0, 2^256).\n"
    "    rounds: 20, 12 or 8.\n\n"
    "Raises:\n"
    "    TypeError: seed or rounds is no whole number.\n"
    "    ValueError: seed out of range, other rounds.\n"
    "    RuntimeError: used in a forked child, which would repeat the parent's noise.\n\n"
    "Guarantees:\n"
    "    None about privacy; a receipt says that the key was a seed.\n\n"
    "Example:\n"
    "    >>> import hushvec as hv\n"
    "    >>> a, b = (hv.gaussian_noise(3, generator=hv.Generator.unsafe_seeded(7)) for _ in range(2))\n"
    "    >>> bool((a == b).all())\n"
    "    True";

// True and False are whole numbers to Python; here they are mistakes.
py::int_ whole_number(const char* name, const py::object& value) {
    if (!py::isinstance<py::int_>(value) || py::isinstance<py::bool_>(value)) {
        throw py::type_error(std::string(name) + " must be a whole number, got " + std::string(py::str(py::type::of(value).attr("__name__"))));
    }
    return py::reinterpret_borrow<py::int_>(value);
}

// Values that no int holds are as wrong as any other.
int rounds_from(const py::object& value) {
    const py::int_ rounds = whole_number("rounds", value);
    if (rounds < py::int_(0) || rounds > py::int_(1000)) throw py::value_error("rounds must be 20, 12 or 8, got " + std::string(py::str(rounds)));
    return rounds.cast<int>();
}

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

using StateArray = py::array_t<std::int64_t, py::array::c_style>;

void check_state(const StateArray& state) {
    if (state.ndim() == 1 && state.size() == kStateWords) return;
    throw py::value_error("state must have 6 words, got " + std::to_string(state.size()));
}

StateArray state_words(const py::capsule& stream) {
    StateWords words = words_of(stream_of(stream));
    StateArray state(kStateWords);
    std::memcpy(state.mutable_data(), words.data(), sizeof words);
    explicit_bzero(words.data(), sizeof words);
    return state;
}

// What `state` holds, whose nonce is then advanced. The GIL makes it one step.
py::capsule take_from_state(StateArray state) {
    check_state(state);
    StateWords words;
    std::memcpy(words.data(), state.data(), sizeof words);
    WipedStream stream{KeyStream{}};
    load_words(stream, words);
    if (stream.rounds != 20 && stream.rounds != 12 && stream.rounds != 8) {
        throw py::value_error("state must have 20, 12 or 8 rounds, got " + std::to_string(static_cast<std::int64_t>(words[5])));
    }
    ++words[4];
    std::memcpy(state.mutable_data(), words.data(), sizeof words);
    explicit_bzero(words.data(), sizeof words);
    return key_capsule(stream);
}

}  // namespace

WipedStream reserve_from(py::handle source) {
    if (is_key_capsule(source)) return WipedStream(stream_of(source));
    if (py::isinstance<Generator>(source)) return source.cast<Generator&>().reserve();
    throw py::type_error("source must be a Generator or a stream it reserved, got " + std::string(py::str(py::type::of(source).attr("__name__"))));
}

void bind_generator(py::module_& module) {
    py::class_<Generator, std::shared_ptr<Generator>>(module, "Generator", kGeneratorDoc)
        .def(py::init([](const py::object& rounds) { return std::make_shared<Generator>(rounds_from(rounds)); }), py::arg("rounds") = 20)
        .def_static("unsafe_seeded", [](const py::object& seed, const py::object& rounds) {
                        return std::make_shared<Generator>(key_of_seed(whole_number("seed", seed)), rounds_from(rounds));
                    }, py::arg("seed"), py::arg("rounds") = 20, kUnsafeSeededDoc)
        .def_property_readonly("rounds", &Generator::rounds)
        .def_property_readonly("seeded", [](const Generator& self) { return self.key_source() == KeySource::seed; })
        .def_property_readonly("key_source", [](const Generator& self) { return self.key_source() == KeySource::seed ? "seed" : "os"; })
        .def("_reserve", [](Generator& self) { return key_capsule(self.reserve()); })
        .def("_apart", [](Generator& self, std::uint64_t place) { return key_capsule(self.apart(place)); }, py::arg("place"))
        .def("__reduce__", [](const Generator&) -> py::object {
            throw py::type_error("a Generator cannot be copied or pickled: two copies would repeat one key stream");
        })
        .def("__copy__", [](const Generator&) -> py::object {
            throw py::type_error("a Generator cannot be copied or pickled: two copies would repeat one key stream");
        })
        .def("__deepcopy__", [](const Generator&, const py::dict&) -> py::object {
            throw py::type_error("a Generator cannot be copied or pickled: two copies would repeat one key stream");
        });
    define(module, "default_generator", &default_generator);
    define(module, "_state_words", &state_words, py::arg("stream"));
    define(module, "_take_from_state", &take_from_state, py::arg("state").noconvert());
}

}  // namespace hushvec::python
