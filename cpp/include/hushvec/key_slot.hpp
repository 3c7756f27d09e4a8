// Keys in locked memory: a generator's, and the round keys of the calls that draw from AES.
#pragma once

#include <cstdint>

#include "hushvec/keystream.hpp"

namespace hushvec {

// What a slot holds. A forked child finds zeros: its owner is 0, which is no process.
struct HeldKey {
    KeyStream stream;
    std::uint64_t owner = 0;
};

// One of many slots that share a locked page. Wiped when it goes, and free for the next.
class KeySlot {
public:
    KeySlot();
    ~KeySlot();
    KeySlot(const KeySlot&) = delete;
    KeySlot& operator=(const KeySlot&) = delete;

    HeldKey* operator->() const { return held_; }
    HeldKey& operator*() const { return *held_; }

private:
    HeldKey* held_;
};

// The same for round keys. It takes a slot when there is something to put into it.
class RoundKeySlot {
public:
    RoundKeySlot() = default;
    ~RoundKeySlot();
    RoundKeySlot(const RoundKeySlot&) = delete;
    RoundKeySlot& operator=(const RoundKeySlot&) = delete;

    AesRoundKeys& taken();

private:
    AesRoundKeys* held_ = nullptr;
};

}  // namespace hushvec
