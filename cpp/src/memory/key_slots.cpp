#include <new>

#include "hushvec/key_slot.hpp"
#include "hushvec/locked_memory.hpp"
#include "lanes/aes/kernels.hpp"
#include "memory/live_pages.hpp"
#include "memory/slot_pool.hpp"

namespace hushvec {
namespace {

constexpr std::size_t kKeySlotBytes = 64;
constexpr std::size_t kRoundKeySlotBytes = 256;
static_assert(sizeof(HeldKey) <= kKeySlotBytes && sizeof(AesRoundKeys) <= kRoundKeySlotBytes);

SlotPool& keys() {
    static auto& pool = *new SlotPool(kKeySlotBytes);
    return pool;
}

SlotPool& round_keys() {
    static auto& pool = *new SlotPool(kRoundKeySlotBytes);
    return pool;
}

}  // namespace

KeySlot::KeySlot() : held_(new(keys().take()) HeldKey) {}

KeySlot::~KeySlot() { keys().give_back(reinterpret_cast<std::uint8_t*>(held_)); }

AesRoundKeys& RoundKeySlot::taken() {
    if (held_ == nullptr) held_ = new (round_keys().take()) AesRoundKeys;
    return *held_;
}

RoundKeySlot::~RoundKeySlot() {
    if (held_ != nullptr) round_keys().give_back(reinterpret_cast<std::uint8_t*>(held_));
}

MemoryReport memory_report() {
    MemoryReport report = LivePages::report();
    report.key_slots = keys().in_use();
    for (const SlotPool* pool : {&keys(), &round_keys()}) {
        for (const LockedPages* page : pool->pages()) {
            report.key_refusals = page->refusals();
            report.key_bytes += page->mapped();
            if (report.key_refusals.lock == 0) report.locked_key_bytes += page->mapped();
        }
    }
    return report;
}

}  // namespace hushvec
