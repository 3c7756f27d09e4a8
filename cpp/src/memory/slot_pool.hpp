// Slots of one size in locked pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "hushvec/locked_memory.hpp"

namespace hushvec {

// Whole cache lines, so that threads with slots of their own do not share lines. Pages are kept: there are as many as the most slots
// at one time needed. Not for destruction: slots that outlive static destruction are still given back, and the pages are wiped at exit.
class SlotPool {
public:
    explicit SlotPool(std::size_t slot_bytes) : slot_bytes_(slot_bytes) {}

    // Zeros. Throws std::bad_alloc.
    std::uint8_t* take();
    void give_back(std::uint8_t* slot);   // wipes it

    std::size_t in_use() const;
    std::vector<const LockedPages*> pages() const;

private:
    void add_page();
    std::uint8_t* take_free();   // nullptr where a page is needed first

    const std::size_t slot_bytes_;
    std::vector<std::unique_ptr<LockedPages>> pages_;
    std::vector<std::uint8_t*> free_;
    std::size_t in_use_ = 0;
};

}  // namespace hushvec
