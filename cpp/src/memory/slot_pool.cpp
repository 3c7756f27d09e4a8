#include "memory/slot_pool.hpp"

#include "hushvec/wipe.hpp"
#include "memory/fork_lock.hpp"

namespace hushvec {
namespace {

constexpr std::size_t kPageOfSlots = 4096;

}  // namespace

void SlotPool::add_page() {
    auto page = std::make_unique<LockedPages>(kPageOfSlots);   // takes the lock itself
    const std::lock_guard<Mutex> lock(fork_lock());
    free_.reserve((pages_.size() + 1) * (page->mapped() / slot_bytes_));   // room for all of them: giving back never throws
    for (std::size_t at = page->mapped(); at >= slot_bytes_; at -= slot_bytes_) free_.push_back(page->data() + at - slot_bytes_);
    pages_.push_back(std::move(page));
}

std::uint8_t* SlotPool::take_free() {
    const std::lock_guard<Mutex> lock(fork_lock());
    if (free_.empty()) return nullptr;
    std::uint8_t* slot = free_.back();
    free_.pop_back();
    in_use_ += 1;
    return slot;
}

std::uint8_t* SlotPool::take() {
    std::uint8_t* slot = take_free();
    while (slot == nullptr) {
        add_page();
        slot = take_free();
    }
    return slot;
}

void SlotPool::give_back(std::uint8_t* slot) {
    wipe(slot, slot_bytes_);
    const std::lock_guard<Mutex> lock(fork_lock());
    free_.push_back(slot);
    in_use_ -= 1;
}

std::size_t SlotPool::in_use() const {
    const std::lock_guard<Mutex> lock(fork_lock());
    return in_use_;
}

std::vector<const LockedPages*> SlotPool::pages() const {
    const std::lock_guard<Mutex> lock(fork_lock());
    std::vector<const LockedPages*> all;
    for (const auto& page : pages_) all.push_back(page.get());
    return all;
}

}  // namespace hushvec
