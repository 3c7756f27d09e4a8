// A key and a counter of nonces: hands every call a key stream of its own.
//
// The key lies in locked memory (key_slot.hpp); the copy that a call gets is wiped when the call ends (wiped_stream.hpp).
//
// Never the same stream twice: nonces are reserved atomically; a child process after fork() draws a new key before its
// first call, and refuses to continue a seeded generator, whose stream the parent also has. Memory that is put back to an earlier
// moment (a snapshot of the process or of its virtual machine) brings back key and nonce: so a generator keyed by the operating
// system also asks the kernel for 256 fresh bits in every call, and the call's key is their sum with the held key. It is secret
// and new if either is.
#pragma once

#include <array>
#include <cstdint>

#include "hushvec/key_slot.hpp"
#include "hushvec/keystream.hpp"
#include "hushvec/wiped_stream.hpp"

namespace hushvec {

enum class KeySource {
    os,
    seed,
};

class Generator {
public:
    using Key = std::array<std::uint8_t, 32>;

    explicit Generator(int rounds);                       // key from the operating system
    Generator(const Key& seed_key, int rounds);           // reproducible, hence no privacy
    Generator(const Generator&) = delete;
    Generator& operator=(const Generator&) = delete;

    // Throws std::runtime_error in a forked child of a seeded generator, and when 2^63 nonces are used up.
    WipedStream reserve();

    // The start of a stream whose nonces are counted elsewhere, such as in device memory: a new key from the operating system, or
    // the seed's key from nonce 2^63 + place * 2^40, which reserve() never reaches. Throws like reserve().
    WipedStream apart(std::uint64_t place);

    int rounds() const { return rounds_; }
    KeySource key_source() const { return source_; }

private:
    void follow_fork();
    void draw_key();

    KeySlot slot_;
    int rounds_;
    KeySource source_;
};

}  // namespace hushvec
