// One call's key stream as Python passes it from module to module: opaque, in locked memory, and wiped when it goes.
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>

#include "hushvec/key_slot.hpp"
#include "hushvec/keystream.hpp"
#include "hushvec/wipe.hpp"
#include "hushvec/wiped_stream.hpp"

namespace hushvec::python {

namespace py = pybind11;

inline constexpr const char* kKeyCapsule = "hushvec.KeyStream";

// Not the name of a process: two modules with cores of their own may make and read a capsule. A forked child finds 0.
inline constexpr std::uint64_t kHeldByCapsule = 1;

inline py::capsule key_capsule(const WipedKey& stream) {
    const auto destroy = [](PyObject* capsule) { delete static_cast<KeySlot*>(PyCapsule_GetPointer(capsule, kKeyCapsule)); };
    auto slot = std::make_unique<KeySlot>();
    (*slot)->stream = stream;
    (*slot)->owner = kHeldByCapsule;
    py::capsule capsule(slot.get(), kKeyCapsule, static_cast<PyCapsule_Destructor>(destroy));
    slot.release();
    return capsule;
}

inline bool is_key_capsule(py::handle object) { return PyCapsule_IsValid(object.ptr(), kKeyCapsule) != 0; }

// Throws std::runtime_error in a forked child: the stream is the parent's to use.
inline const KeyStream& stream_of(py::handle capsule) {
    const HeldKey& held = **static_cast<const KeySlot*>(PyCapsule_GetPointer(capsule.ptr(), kKeyCapsule));
    if (held.owner != kHeldByCapsule) throw std::runtime_error("this stream was reserved before a fork: reserve one in the child");
    return held.stream;
}

// A stream as six 64-bit words in an array: the key in little-endian order, the next nonce, the rounds of ChaCha. Such an array is ordinary
// memory: captured graphs and compiled programs need their stream in a tensor.
inline constexpr std::size_t kStateWords = 6;

// A copy of them on the host, wiped with its scope.
struct StateWords : std::array<std::uint64_t, kStateWords> {
    StateWords() = default;
    explicit StateWords(const KeyStream& stream) : array() {
        for (std::size_t i = 0; i < 8; ++i) (*this)[i / 2] |= std::uint64_t{stream.key[i]} << (32 * (i % 2));
        (*this)[4] = stream.nonce;
        (*this)[5] = static_cast<std::uint64_t>(rounds_of(stream.cipher));
    }
    ~StateWords() { wipe(data(), sizeof(array)); }
    StateWords(const StateWords&) = delete;
    StateWords& operator=(const StateWords&) = delete;
};

inline void load_words(KeyStream& stream, const StateWords& words) {
    for (std::size_t i = 0; i < 8; ++i) stream.key[i] = static_cast<std::uint32_t>(words[i / 2] >> (32 * (i % 2)));
    stream.nonce = words[4];
    stream.cipher = static_cast<Cipher>(words[5]);
}

}  // namespace hushvec::python
