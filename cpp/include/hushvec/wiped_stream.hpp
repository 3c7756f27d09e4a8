// A copy of a key stream that is wiped where it lies when its scope ends, with the stack frames of what worked with it.
#pragma once


#include "hushvec/key_slot.hpp"
#include "hushvec/keystream.hpp"
#include "hushvec/stack_frames.hpp"
#include "hushvec/wipe.hpp"

namespace hushvec {

// Without round keys: for keeping, and for ChaCha.
struct WipedKey : KeyStream {
    WipedKey() = default;
    explicit WipedKey(const KeyStream& from) : KeyStream(from) { round_keys = nullptr; }
    // The key is the sum (xor) of both.
    WipedKey(const KeyStream& from, const KeyStream& other, std::uint64_t first_nonce, Cipher drawn_from, bool by_half_words = false)
        : WipedKey(from) {
        for (std::size_t word = 0; word < 8; ++word) key[word] ^= other.key[word];
        nonce = first_nonce;
        cipher = drawn_from;
        half_words = by_half_words;
    }
    ~WipedKey() { wipe(static_cast<KeyStream*>(this), sizeof(KeyStream)); }
    WipedKey(const WipedKey&) = delete;
    WipedKey& operator=(const WipedKey&) = delete;
};

// Ready to be drawn from: round keys of AES lie in locked memory until it goes.
struct WipedStream : WipedKey {
    explicit WipedStream(const KeyStream& from);
    ~WipedStream() { wipe_stack_below(); }

private:
    RoundKeySlot round_key_slot_;
};

}  // namespace hushvec
