// Slots of one cache line each, so that threads with generators of their own do not share lines. Pages of slots are kept: there are
// as many as the most generators at one time needed.
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "hushvec/key_slot.hpp"
#include "hushvec/locked_memory.hpp"
#include "memory/fork_lock.hpp"
#include "memory/live_pages.hpp"

namespace hushvec {
namespace {

constexpr std::size_t kSlotBytes = 64;
constexpr std::size_t kPageOfSlots = 4096;
static_assert(sizeof(HeldKey) <= kSlotBytes);

struct Slots {
    std::vector<std::unique_ptr<LockedPages>> pages;
    std::vector<HeldKey*> free;
    std::size_t in_use = 0;
};

// Never destroyed: generators that outlive static destruction still give their slots back. The pages are wiped at exit.
Slots& slots() {
    static auto& all = *new Slots;
    return all;
}

void add_page() {
    auto page = std::make_unique<LockedPages>(kPageOfSlots);   // takes the lock itself
    const std::lock_guard<std::mutex> lock(fork_lock());
    Slots& all = slots();
    all.free.reserve((all.pages.size() + 1) * (page->mapped() / kSlotBytes));   // room for all of them: giving back never throws
    for (std::size_t at = page->mapped(); at >= kSlotBytes; at -= kSlotBytes) {
        all.free.push_back(new (page->data() + at - kSlotBytes) HeldKey);
    }
    all.pages.push_back(std::move(page));
}

// nullptr where a page is needed first.
HeldKey* take_free() {
    const std::lock_guard<std::mutex> lock(fork_lock());
    Slots& all = slots();
    if (all.free.empty()) return nullptr;
    HeldKey* held = all.free.back();
    all.free.pop_back();
    all.in_use += 1;
    return held;
}

}  // namespace

KeySlot::KeySlot() : held_(take_free()) {
    while (held_ == nullptr) {
        add_page();
        held_ = take_free();
    }
}

KeySlot::~KeySlot() {
    explicit_bzero(held_, sizeof *held_);
    const std::lock_guard<std::mutex> lock(fork_lock());
    slots().free.push_back(held_);
    slots().in_use -= 1;
}

MemoryReport memory_report() {
    MemoryReport report = LivePages::report();
    std::vector<const LockedPages*> pages;
    {
        const std::lock_guard<std::mutex> lock(fork_lock());
        report.key_slots = slots().in_use;
        for (const auto& page : slots().pages) pages.push_back(page.get());
    }
    for (const LockedPages* page : pages) {
        report.key_refusals = page->refusals();
        report.key_bytes += page->mapped();
        if (report.key_refusals.lock == 0) report.locked_key_bytes += page->mapped();
    }
    return report;
}

}  // namespace hushvec
