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
#include <optional>

#include "hushvec/key_slot.hpp"
#include "hushvec/keystream.hpp"
#include "hushvec/wiped_stream.hpp"

namespace hushvec {

enum class KeySource {
    os,
    seed,
};

// How far one key goes: docs/proofs/key_stream.md. Tests lower it.
struct KeyLimits {
    std::uint64_t aes_nonces = std::uint64_t{1} << 48;
    std::int16_t aes_segment_bits = kAesSegmentBits;
};

class Generator {
public:
    using Key = std::array<std::uint8_t, 32>;

    // Key from the operating system. Without a cipher: default_cipher() on the CPU, ChaCha20 on a device.
    // Exact noise on rows and on sums of rows is of version 3.
    explicit Generator(std::optional<Cipher> cipher = {}, KeyLimits limits = {});
    // Reproducible, hence no privacy. `half_words`: as version 3, which seeds did not have from the beginning.
    Generator(const Key& seed_key, Cipher cipher, KeyLimits limits = {}, bool half_words = false);
    Generator(const Generator&) = delete;
    Generator& operator=(const Generator&) = delete;

    // Throws std::runtime_error in a forked child of a seeded generator, and when the nonces of a seeded key are used up: 2^63, with
    // AES-256 2^48. A generator keyed by the operating system goes on with a new key there.
    WipedStream reserve() { return WipedStream(reserve_key()); }
    WipedKey reserve_key() { return next_key(cipher_, half_words_); }

    // The same for a device: ChaCha, so many nonces from the stream's own on. Throws std::invalid_argument where AES-256 was asked for.
    WipedKey reserve_for_device(std::uint64_t nonces = 1) { return next_key(device_cipher(), half_words_, nonces); }

    // The start of a stream whose nonces are counted elsewhere, such as in device memory: a new key from the operating system, or
    // the seed's key from nonce 2^63 + place * 2^40, which reserve() never reaches. Throws like reserve_for_device().
    WipedKey apart(std::uint64_t place);

    Cipher cipher() const { return cipher_; }
    Cipher device_cipher() const;   // throws like reserve_for_device()
    bool half_words() const { return half_words_; }
    KeySource key_source() const { return source_; }

private:
    void follow_fork();
    void draw_key();
    WipedKey next_key(Cipher cipher, bool half_words, std::uint64_t nonces = 1);

    KeySlot slot_;
    Cipher cipher_;
    bool chosen_;
    KeyLimits limits_;
    KeySource source_;
    bool half_words_;
};

}  // namespace hushvec
