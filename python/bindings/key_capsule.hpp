// One call's key stream as Python passes it from module to module: opaque, and wiped when it goes.
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "hushvec/keystream.hpp"

namespace hushvec::python {

namespace py = pybind11;

inline constexpr const char* kKeyCapsule = "hushvec.KeyStream";

inline py::capsule key_capsule(const KeyStream& stream) {
    const auto wipe = [](PyObject* capsule) {
        auto* held = static_cast<KeyStream*>(PyCapsule_GetPointer(capsule, kKeyCapsule));
        explicit_bzero(held, sizeof *held);
        delete held;
    };
    return py::capsule(new KeyStream(stream), kKeyCapsule, static_cast<PyCapsule_Destructor>(wipe));
}

inline bool is_key_capsule(py::handle object) { return PyCapsule_IsValid(object.ptr(), kKeyCapsule) != 0; }

inline const KeyStream& stream_of(py::handle capsule) {
    return *static_cast<const KeyStream*>(PyCapsule_GetPointer(capsule.ptr(), kKeyCapsule));
}

// A stream as six 64-bit words in an array: the key in little-endian order, the next nonce, the rounds.
inline constexpr std::size_t kStateWords = 6;
using StateWords = std::array<std::uint64_t, kStateWords>;

inline StateWords words_of(const KeyStream& stream) {
    StateWords words = {};
    for (std::size_t i = 0; i < 8; ++i) words[i / 2] |= std::uint64_t{stream.key[i]} << (32 * (i % 2));
    words[4] = stream.nonce;
    words[5] = static_cast<std::uint64_t>(stream.rounds);
    return words;
}

inline KeyStream stream_of(const StateWords& words) {
    KeyStream stream;
    for (std::size_t i = 0; i < 8; ++i) stream.key[i] = static_cast<std::uint32_t>(words[i / 2] >> (32 * (i % 2)));
    stream.nonce = words[4];
    stream.rounds = static_cast<int>(words[5]);
    return stream;
}

}  // namespace hushvec::python
