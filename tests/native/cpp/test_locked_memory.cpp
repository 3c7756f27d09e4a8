// Locked pages and the keys in them: zeros when they should be, and no second copy of a key after a call.
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"
#include "hushvec/generator.hpp"
#include "hushvec/key_slot.hpp"
#include "hushvec/locked_memory.hpp"
#include "hushvec/wipe.hpp"
#include "memory_scan.hpp"
#include "noise_of_laws.hpp"
#include "os/os.hpp"

namespace {

using namespace hushvec;
using test::check;
using test::in_child;
using test::kLaws;
using test::make_noise;
using test::times_in_memory;

constexpr std::size_t kSecretBytes = 32;
using Turned = test::Turned<kSecretBytes>;

Turned plant(std::uint8_t* target, std::uint8_t name) {
    std::uint32_t state = name;
    for (std::size_t i = 0; i < kSecretBytes; ++i) {
        state = state * 1664525u + 1013904223u;
        target[i] = static_cast<std::uint8_t>(state >> 24);
    }
    return test::turned<kSecretBytes>(target);
}

bool all_zero(const LockedPages& pages) {
    for (std::size_t i = 0; i < pages.mapped(); ++i) {
        if (pages.data()[i] != 0) return false;
    }
    return true;
}

void pages_hold_and_forget() {
    for (const std::size_t size : {1u, 4095u, 4096u, 4097u, 1u << 20}) {
        LockedPages pages(size);
        check(pages.size() == size && pages.mapped() >= size && pages.mapped() % 4096 == 0, "whole pages");
        check(all_zero(pages), "zeros at first");
        std::memset(pages.data(), 0xA5, size);
        pages.scrub();
        check(all_zero(pages), "zeros after scrub");
    }
    for (const std::size_t size : {std::size_t{0}, ~std::size_t{0}}) {
        bool refused = false;
        try {
            LockedPages pages(size);
        } catch (const std::bad_alloc&) {
            refused = true;
        }
        check(refused, "no pages of an impossible size");
    }
}

#if defined(__APPLE__)
constexpr int kStopped = 128 + SIGBUS;
#else
constexpr int kStopped = 128 + SIGSEGV;
#endif

void nobody_touches_the_neighbours() {
    const LockedPages pages(4096);
    volatile std::uint8_t* data = pages.data();
    check(in_child([&] { data[-1] = 1; return true; }) == kStopped, "a write before the pages is stopped");
    check(in_child([&] { data[pages.mapped()] = 1; return true; }) == kStopped, "a write behind the pages is stopped");
    check(in_child([&] { data[0] = 1; data[pages.mapped() - 1] = 1; return true; }) == 0, "writes to the pages are not");
}

void a_secret_is_found_while_it_is_there() {
    std::array<std::uint8_t, kSecretBytes> plain;
    check(times_in_memory(plant(plain.data(), 1)) >= 1, "the scan finds ordinary memory");
    auto pages = std::make_unique<LockedPages>(4096);
    const Turned secret = plant(pages->data(), 2);
    check(times_in_memory(secret) == 1, "the scan finds locked memory");
    pages.reset();
    check(times_in_memory(secret) == 0, "nothing is left when the pages go");
}

// Whether the system keeps what it promises: qemu-user takes the advice and leaves the page as it is.
bool kernel_wipes_on_fork() {
    std::uint8_t* page = os::map_between_guards(os::page_size());
    const bool granted = os::withhold_from_children(page, os::page_size()) == 0;
    page[0] = 1;
    const bool wiped = in_child([&] {
                           if (granted) os::take_over_withheld(page, os::page_size());
                           return page[0] == 0;
                       }) == 0;
    os::unmap_with_guards(page, os::page_size());
    return granted && wiped;
}

void children_find_zeros() {
    const bool kernel_wipes = kernel_wipes_on_fork();
    if (!kernel_wipes) std::printf("skipped: wiping by the kernel, as this system does not do it; a handler does\n");
    for (const bool by_the_kernel : {true, false}) {
        LockedPages pages(4096, {.wipe_on_fork = by_the_kernel});
        check((pages.refusals().wipe_on_fork == 0) == (by_the_kernel && kernel_wipes), "refusals are recorded");
        plant(pages.data(), 3);
        const std::string how = by_the_kernel ? " (kernel)" : " (handler)";
        check(!pages.wiped_by_fork(), "the parent is not told of a fork" + how);
        check(in_child([&] { return all_zero(pages) && pages.wiped_by_fork(); }) == 0, "a child finds zeros, and is told" + how);
        check(in_child([&] { pages.scrub(); return !pages.wiped_by_fork(); }) == 0, "a child may begin anew" + how);
        check(in_child([&] { return pages.refusals().lock == 0; }) == 0, "a child's pages are locked again" + how);
        check(!all_zero(pages), "the parent keeps its contents" + how);
    }
}

// Handlers run in the opposite order: this one, registered before the first pages of the child, runs after theirs.
LockedPages* at_exit_pages = nullptr;
void the_exit_handler_has_run() { test::leave(all_zero(*at_exit_pages) ? 0 : 1); }

// Must run before anything else makes pages.
void pages_are_wiped_at_exit() {
    check(in_child([] {
              std::atexit(&the_exit_handler_has_run);
              at_exit_pages = new LockedPages(4096);   // never destroyed
              plant(at_exit_pages->data(), 4);
              std::exit(1);
              return false;
          }) == 0,
          "pages are zeros after the exit handlers");
}

// With a seed the key of a call is the held key.
void a_held_key_lies_in_one_place() {
    Generator::Key seed;
    const Turned key = plant(seed.data(), 5);
    {
        Generator generator(seed, Cipher::chacha20);
        wipe(seed.data(), seed.size());
        check(test::turned<kSecretBytes>(generator.reserve().key) == key, "a call's key is the seed's");
        check(times_in_memory(key) == 1, "a key lies in its slot and nowhere else, after a call was given a copy");
        for (const Law law : kLaws) make_noise(generator.reserve(), law, DType::float32);
        check(times_in_memory(key) == 1, "a key lies in its slot and nowhere else, after it made noise");
        if (test::kForks) check(in_child([&] { return times_in_memory(key) == 0; }) == 0, "a child has no key of its parent");
    }
    check(times_in_memory(key) == 0, "a key is gone with its generator");
}

void a_calls_key_goes_with_the_call() {
    Generator generator(Cipher::chacha20);
    Turned key{};
    {
        const WipedStream stream = generator.reserve();
        key = test::turned<kSecretBytes>(stream.key);
        check(times_in_memory(key) == 1, "the key of a call lies in the call's copy and nowhere else");
    }
    check(times_in_memory(key) == 0, "the key of a call goes with it");
    for (const Law law : kLaws) {   // one at a time: the stack frame of one kernel overwrites another's
        for (const DType dtype : {DType::float32, DType::float64}) {
            {
                const WipedStream stream = generator.reserve();
                key = test::turned<kSecretBytes>(stream.key);
                make_noise(stream, law, dtype);
            }
            check(times_in_memory(key) == 0, "the key of a call goes with it, after it made noise");
        }
    }
    KeyStream copied;
    {
        const WipedStream stream = generator.reserve();
        copied = stream;
        key = test::turned<kSecretBytes>(copied.key);
        check(times_in_memory(key) >= 2, "the scan finds a copy that somebody keeps");
    }
}

void slots_are_shared_and_wiped() {
    const std::size_t before = memory_report().key_slots;
    std::vector<std::unique_ptr<KeySlot>> slots;
    std::set<const void*> places;
    for (int i = 0; i < 200; ++i) {
        slots.push_back(std::make_unique<KeySlot>());
        places.insert(&**slots.back());
        check((*slots.back())->owner == 0 && (*slots.back())->stream.key[7] == 0, "a slot is empty at first");
        (*slots.back())->owner = 7;
        (*slots.back())->stream.key[7] = 7;
    }
    const MemoryReport report = memory_report();
    check(places.size() == 200, "slots are distinct");
    check(report.key_slots == before + 200, "slots are counted");
    check(report.key_bytes >= 200 * sizeof(HeldKey) && report.locked_key_bytes == report.key_bytes, "slots lie in locked pages");
    slots.clear();
    check(memory_report().key_slots == before, "slots are given back");
    check(memory_report().key_bytes == report.key_bytes, "their pages stay");
    const KeySlot again;
    check(places.count(&*again) == 1 && again->owner == 0 && again->stream.key[7] == 0, "a slot that comes back is empty");

    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([] { for (int round = 0; round < 500; ++round) Generator(Cipher::chacha8).reserve(); });
    }
    for (std::thread& thread : threads) thread.join();
    check(memory_report().key_slots == before + 1, "threads make and drop generators");
}

}  // namespace

int main() {
    if (test::kForks) {
        pages_are_wiped_at_exit();
        nobody_touches_the_neighbours();
        children_find_zeros();
    } else {
        test::skip_without_fork("guard pages, pages of children and at exit");
    }
    pages_hold_and_forget();
    slots_are_shared_and_wiped();
    if (test::kScans) {
        a_secret_is_found_while_it_is_there();
        a_held_key_lies_in_one_place();
        a_calls_key_goes_with_the_call();
    }
    return test::summary();
}
