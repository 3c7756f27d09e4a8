#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "bindings.hpp"
#include "hushvec/generator.hpp"
#include "key_capsule.hpp"
#include "memory/fork_lock.hpp"
#include "noise_source.hpp"

namespace hushvec::python {

namespace py = pybind11;

namespace {

constexpr const char* kGeneratorDoc =
    "A key stream: AES-256 or ChaCha with a key of its own, one nonce a call.\n\n"
    "Args:\n"
    "    rounds: 20 (as in RFC 8439), 12 or 8: the older way to ask for ``chacha20``, ``chacha12`` or ``chacha8``.\n"
    "    cipher: ``aes256`` (FIPS 197 in counter mode), ``chacha20``, ``chacha12`` or ``chacha8``. No attack on ChaCha8 is known; fewer rounds are\n"
    "        faster. By default AES-256 where the processor has instructions for it and the call runs on the CPU, else ChaCha20. On a GPU\n"
    "        there is only ChaCha.\n\n"
    "Raises:\n"
    "    TypeError: rounds is no whole number, cipher is no string, or the generator is copied or pickled.\n"
    "    ValueError: other rounds, another cipher, or both arguments given. A call on a GPU raises it where cipher was ``aes256``.\n\n"
    "Guarantees:\n"
    "    The key comes from the operating system and stays in locked memory (docs/secure_memory.md). Calls from any number of threads never share a nonce, and a forked child\n"
    "    draws a new key, so no part of a stream is used twice. Every call adds 256 fresh bits from the operating system to the key: memory that is restored from a\n"
    "    snapshot repeats no noise either (docs/secure_memory.md says what that rests on). Noise is as good as the cipher: docs/proofs/key_stream.md has the bound for\n"
    "    AES-256, whose blocks never repeat within a call.\n\n"
    "Reference:\n"
    "    Bernstein, \"ChaCha, a variant of Salsa20\" (2008); NIST FIPS 197 and SP 800-38A; RFC 8452 section 4; docs/format.md sections 1 and 13.\n\n"
    "Example:\n"
    "    >>> import hushvec as hv\n"
    "    >>> hv.gaussian_noise(384, generator=hv.Generator(cipher=\"chacha12\")).shape\n"
    "    (384,)";

constexpr const char* kUnsafeSeededDoc =
    "A key stream that anyone with the seed can repeat: for tests and reproducible studies, never for a release.\n\n"
    "Args:\n"
    "    seed: the key as a whole number in [0, 2^256).\n"
    "    rounds: 20, 12 or 8: the older way to ask for ``chacha20``, ``chacha12`` or ``chacha8``.\n"
    "    cipher: as in `Generator`; ``chacha20`` by default on every machine, so that a seed gives the same noise everywhere.\n"
    "    format_version: 3 for exact noise as a generator without a seed makes it (docs/format.md section 16). By default that of the cipher, 1 or 2,\n"
    "        as all seeds had before there was a version 3.\n\n"
    "Raises:\n"
    "    TypeError: seed, rounds or format_version is no whole number, or cipher is no string.\n"
    "    ValueError: seed out of range, other rounds, another cipher, both rounds and cipher given, or a format_version that is neither 3 nor the cipher's.\n"
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
Cipher cipher_of_rounds(const py::object& value) {
    const py::int_ rounds = whole_number("rounds", value);
    for (const Cipher cipher : kCiphers) {
        if (cipher != Cipher::aes256 && rounds.equal(py::int_(rounds_of(cipher)))) return cipher;
    }
    throw py::value_error("rounds must be 20, 12 or 8, got " + std::string(py::str(rounds)));
}

std::optional<Cipher> cipher_from(const py::object& rounds, const py::object& cipher) {
    if (rounds.is_none() && cipher.is_none()) return {};
    if (rounds.is_none()) return cipher_named(cipher);
    if (cipher.is_none()) return cipher_of_rounds(rounds);
    throw py::value_error("rounds must not be given with cipher, got rounds " + std::string(py::str(rounds)) + " and cipher " +
                          std::string(py::repr(cipher)));
}

// Whether version 3 was asked for.
bool half_words_from(const py::object& version, Cipher cipher) {
    if (version.is_none()) return false;
    const py::int_ given = whole_number("format_version", version);
    if (given.equal(py::int_(format_version(cipher, true)))) return true;
    if (given.equal(py::int_(format_version(cipher)))) return false;
    throw py::value_error("format_version must be 3 or " + std::to_string(format_version(cipher)) + " for " + name_of(cipher) + ", got " +
                          std::string(py::str(given)));
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

using StateArray = py::array_t<std::int64_t, py::array::c_style>;

void check_state(const StateArray& state) {
    if (state.ndim() == 1 && state.size() == kStateWords) return;
    throw py::value_error("state must have 6 words, got " + std::to_string(state.size()));
}

StateArray state_words(const py::capsule& stream) {
    const StateWords words(stream_of(stream));
    StateArray state(kStateWords);
    std::memcpy(state.mutable_data(), words.data(), sizeof words);
    return state;
}

// Copies the words and advances the nonce in `memory`. One step under the lock of all nonces: without a GIL nothing else makes it one.
void take_words(StateWords& words, std::int64_t* memory) {
    register_fork_handlers();
    const std::lock_guard<Mutex> lock(fork_lock());
    std::memcpy(words.data(), memory, sizeof words);
    if (words[5] != 20 && words[5] != 12 && words[5] != 8) {
        throw py::value_error("state must have 20, 12 or 8 rounds, got " + std::to_string(static_cast<std::int64_t>(words[5])));
    }
    const std::uint64_t next = words[4] + 1;
    std::memcpy(memory + 4, &next, sizeof next);
}

// What `state` holds, whose nonce is then advanced.
py::capsule take_from_state(StateArray state) {
    check_state(state);
    StateWords words;
    take_words(words, state.mutable_data());
    WipedKey stream;
    load_words(stream, words);
    return key_capsule(stream);
}

[[noreturn]] void refuse_copy() {
    throw py::type_error("a Generator cannot be copied or pickled: two copies would repeat one key stream");
}

}  // namespace

WipedStream reserve_from(py::handle source) {
    if (is_key_capsule(source)) return WipedStream(stream_of(source));
    if (py::isinstance<Generator>(source)) return source.cast<Generator&>().reserve();
    throw py::type_error("source must be a Generator or a stream it reserved, got " + std::string(py::str(py::type::of(source).attr("__name__"))));
}

std::shared_ptr<Generator> default_generator() {
    static const auto generator = std::make_shared<Generator>();
    return generator;
}

Cipher cipher_named(const py::object& value) {
    if (!py::isinstance<py::str>(value)) {
        throw py::type_error("cipher must be a string, got " + std::string(py::str(py::type::of(value).attr("__name__"))));
    }
    const auto name = value.cast<std::string>();
    for (const Cipher cipher : kCiphers) {
        if (name == name_of(cipher)) return cipher;
    }
    throw py::value_error("cipher must be aes256, chacha20, chacha12 or chacha8, got " + std::string(py::repr(value)));
}

void bind_generator(py::module_& module) {
    py::class_<Generator, std::shared_ptr<Generator>> generator(module, "Generator", kGeneratorDoc);
    generator
        .def(py::init([](const py::object& rounds, const py::object& cipher) {
                 return std::make_shared<Generator>(cipher_from(rounds, cipher));
             }), py::arg("rounds") = py::none(), py::kw_only(), py::arg("cipher") = py::none())
        .def_static("unsafe_seeded", [](const py::object& seed, const py::object& rounds, const py::object& cipher, const py::object& version) {
                        const Cipher chosen = cipher_from(rounds, cipher).value_or(Cipher::chacha20);
                        return std::make_shared<Generator>(key_of_seed(whole_number("seed", seed)), chosen, KeyLimits{}, half_words_from(version, chosen));
                    }, py::arg("seed"), py::arg("rounds") = py::none(), py::kw_only(), py::arg("cipher") = py::none(),
                    py::arg("format_version") = py::none(), kUnsafeSeededDoc)
        .def_property_readonly("format_version", [](const Generator& self) { return format_version(self.cipher(), self.half_words()); })
        .def_property_readonly("cipher", [](const Generator& self) { return name_of(self.cipher()); })
        .def_property_readonly("device_cipher", [](const Generator& self) { return name_of(self.device_cipher()); })
        .def_property_readonly("rounds", [](const Generator& self) { return rounds_of(self.cipher()); })
        .def_property_readonly("seeded", [](const Generator& self) { return self.key_source() == KeySource::seed; })
        .def_property_readonly("key_source", [](const Generator& self) { return self.key_source() == KeySource::seed ? "seed" : "os"; });
    define(generator, "_reserve", [](Generator& self) { return key_capsule(self.reserve_key()); });
    define(generator, "_reserve_for_device", [](Generator& self, std::uint64_t nonces) { return key_capsule(self.reserve_for_device(nonces)); },
           py::arg("nonces") = 1);
    define(generator, "_apart", [](Generator& self, std::uint64_t place) { return key_capsule(self.apart(place)); }, py::arg("place"));
    define(generator, "__reduce__", [](const Generator&) -> py::object { refuse_copy(); });
    define(generator, "__copy__", [](const Generator&) -> py::object { refuse_copy(); });
    define(generator, "__deepcopy__", [](const Generator&, const py::dict&) -> py::object { refuse_copy(); }, py::arg("memo"));
    define(module, "default_generator", &default_generator);
    define(module, "_state_words", &state_words, py::arg("stream"));
    define(module, "_take_from_state", &take_from_state, py::arg("state").noconvert());
}

}  // namespace hushvec::python
