// A key stream in locked memory.
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

}  // namespace hushvec
