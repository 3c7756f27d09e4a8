#include "block.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>

#if !defined(__x86_64__)
#error "the switch between fibers is written for x86-64"
#endif

// Saves this fiber's registers and stack at *from and goes on with those at `to`.
extern "C" void hushvec_switch_fiber(void** from, void* to);
asm(R"(.text
.globl hushvec_switch_fiber
.hidden hushvec_switch_fiber
hushvec_switch_fiber:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");

namespace emulator {
namespace {

constexpr std::size_t kStackBytes = 128 * 1024;
constexpr std::uint32_t kWarp = 32;

Totals counted;
std::uint64_t stretch = 1;   // between two barriers of one block; no two have the same number
void* scheduler = nullptr;
Thread* running = nullptr;

// In which order threads and blocks run: "forward", "reverse", or the number of a shuffle, anew between any two waits.
class Order {
public:
    Order() : name_(std::getenv("HUSHVEC_EMULATED_ORDER") != nullptr ? std::getenv("HUSHVEC_EMULATED_ORDER") : "forward") {
        if (shuffles()) random_.seed(std::strtoul(name_.c_str(), nullptr, 10));
    }
    void arrange(std::vector<std::uint32_t>& numbers) {
        if (shuffles()) std::shuffle(numbers.begin(), numbers.end(), random_);
    }
    std::uint32_t of_block(std::uint32_t i, std::uint32_t blocks) const { return name_ == "forward" ? i : blocks - 1 - i; }
    std::vector<std::uint32_t> of_threads(std::uint32_t count) const {
        std::vector<std::uint32_t> numbers(count);
        std::iota(numbers.begin(), numbers.end(), 0u);
        if (name_ == "reverse") std::reverse(numbers.begin(), numbers.end());
        return numbers;
    }

private:
    bool shuffles() const { return name_ != "forward" && name_ != "reverse"; }
    std::string name_;
    std::mt19937 random_;
};

Order& order() {
    static Order instance;
    return instance;
}

void wait(Thread& thread, State state, int place) {
    thread.state = state;
    thread.waits_at = place;
    hushvec_switch_fiber(&thread.stack_pointer, scheduler);
}

void begin_fiber() {
    Thread& thread = *running;
    thread.in->kernel->run(thread);
    if (!thread.copies.empty()) fail(thread, "a copy to shared memory that nobody waited for", thread.copies.front().place);
    thread.copies.clear();
    wait(thread, State::done, 0);
    std::abort();
}

void prepare_fiber(Thread& thread) {
    auto** top = reinterpret_cast<void**>(thread.stack + kStackBytes);
    *--top = nullptr;
    *--top = reinterpret_cast<void*>(&begin_fiber);
    for (int i = 0; i < 6; ++i) *--top = nullptr;   // the registers that the switch restores
    thread.stack_pointer = top;
}

// Both ends of a shuffle are there once all lanes of a warp are: then all go on.
bool finish_shuffles(std::vector<Thread>& threads, std::uint32_t count) {
    bool any = false;
    for (std::uint32_t first = 0; first < count; first += kWarp) {
        const std::uint32_t last = std::min(first + kWarp, count);
        std::uint32_t waiting = 0;
        for (std::uint32_t t = first; t < last; ++t) waiting += threads[t].state == State::at_shuffle;
        if (waiting != kWarp) continue;
        for (std::uint32_t t = first; t < last; ++t) {
            Thread& thread = threads[t];
            if (thread.waits_at != threads[first].waits_at) fail(thread, "a shuffle with lanes at different instructions", thread.waits_at);
            const std::uint32_t source = t - first + thread.shuffle_distance;
            thread.shuffled = {0, source <= (thread.shuffle_clamp & 31)};
            thread.shuffled.value = threads[thread.shuffled.in_range ? first + source : t].shuffle_value;
        }
        for (std::uint32_t t = first; t < last; ++t) threads[t].state = State::runs;
        any = true;
    }
    return any;
}

// All that are left wait at a barrier, which opens.
void open_barrier(std::vector<Thread>& threads, std::uint32_t count) {
    const Thread* first = nullptr;
    bool any = false, ended = false;
    for (std::uint32_t t = 0; t < count; ++t) {
        const Thread& thread = threads[t];
        ended = ended || thread.state == State::done;
        if (thread.state != State::at_barrier) continue;
        if (first == nullptr) first = &thread;
        any = any || thread.brings;
        if (thread.waits_at != first->waits_at) fail(thread, "a barrier at which threads wait in different places", thread.waits_at);
    }
    if (ended) fail(*first, "a barrier after threads of the block have ended", first->waits_at);
    for (std::uint32_t t = 0; t < count; ++t) {
        if (threads[t].state == State::done) continue;
        threads[t].brings = any;
        threads[t].state = State::runs;
    }
    ++stretch;
    ++counted.barriers;
}

void run_threads(std::vector<Thread>& threads, std::uint32_t count) {
    std::vector<std::uint32_t> numbers = order().of_threads(count);
    for (;;) {
        order().arrange(numbers);
        std::uint32_t at_barrier = 0, done = 0;
        for (const std::uint32_t number : numbers) {
            Thread& thread = threads[number];
            if (thread.state == State::runs) {
                running = &thread;
                hushvec_switch_fiber(&scheduler, thread.stack_pointer);
            }
            at_barrier += thread.state == State::at_barrier;
            done += thread.state == State::done;
        }
        if (done == count) return;
        if (at_barrier + done == count) {
            open_barrier(threads, count);
        } else if (!finish_shuffles(threads, count)) {
            fail(threads[0], "threads wait for each other: a barrier or a shuffle in divergent code", threads[0].waits_at);
            std::abort();
        }
    }
}

void run_block(const Launch& launch, Place at, std::uint64_t first_of_launch) {
    static std::vector<Thread> threads;
    static std::vector<std::uint8_t*> stacks;
    static Block block;
    while (stacks.size() < launch.threads) stacks.push_back(static_cast<std::uint8_t*>(std::aligned_alloc(64, kStackBytes)));
    if (threads.size() < launch.threads) threads.resize(launch.threads);

    block.kernel = launch.kernel;
    block.shared_bytes = launch.kernel->shared_bytes + launch.dynamic_bytes;
    if (block.storage.size() < block.shared_bytes + 128) block.storage.resize(block.shared_bytes + 128);
    if (block.touched.size() < block.shared_bytes) block.touched.resize(block.shared_bytes);
    block.shared = reinterpret_cast<std::uint8_t*>((reinterpret_cast<std::uintptr_t>(block.storage.data()) + 127) / 128 * 128);
    std::memset(block.shared, 0xFF, block.shared_bytes);
    block.first_of_launch = first_of_launch;
    block.first_stretch = ++stretch;

    std::vector<std::uint8_t> memory = launch.parameters;
    std::vector<std::uint8_t*> parameters;
    for (const std::size_t offset : launch.offsets) parameters.push_back(memory.data() + offset);
    for (std::uint32_t t = 0; t < launch.threads; ++t) {
        Thread& thread = threads[t];
        thread.number = t;
        thread.threads = launch.threads;
        thread.block = at;
        thread.grid = launch.grid;
        thread.parameters = parameters.data();
        thread.in = &block;
        thread.state = State::runs;
        thread.copies.clear();
        thread.stack = stacks[t];
        prepare_fiber(thread);
    }
    run_threads(threads, launch.threads);
}

// ---- checks of an access ----

struct Accessed {
    std::uint8_t* data;
    Touched* touched;   // null: nobody else can touch it
    bool is_shared;
};

Accessed find_shared(Thread& thread, std::uint64_t offset, unsigned bytes) {
    Block& block = *thread.in;
    if (offset + bytes > block.shared_bytes) return {};
    return {block.shared + offset, &block.touched[offset], true};
}

Accessed find_global(std::uint64_t address, unsigned bytes) {
    Allocation* const found = memory().find(address, bytes);
    auto* const data = reinterpret_cast<std::uint8_t*>(address);
    if (found == nullptr) return memory().is_constant(address, bytes) ? Accessed{data, nullptr, false} : Accessed{};
    if (found->touched.empty()) found->touched.resize(found->bytes);
    return {data, &found->touched[static_cast<std::size_t>(data - found->data)], false};
}

Accessed find(Thread& thread, Space space, std::uint64_t address, unsigned bytes) {
    const auto own = [&]() -> Accessed {   // on the thread's stack, or a parameter of the kernel
        const auto first = reinterpret_cast<std::uintptr_t>(thread.stack);
        const auto parameters = reinterpret_cast<std::uintptr_t>(thread.parameters[0]);
        const bool on_stack = address >= first && address + bytes <= first + kStackBytes;
        const bool is_parameter = address >= parameters && address + bytes <= parameters + 8192;
        return on_stack || is_parameter ? Accessed{reinterpret_cast<std::uint8_t*>(address), nullptr, false} : Accessed{};
    };
    switch (space) {
        case Space::shared: return find_shared(thread, static_cast<std::uint32_t>(address), bytes);
        case Space::global: return find_global(address, bytes);
        case Space::local:
        case Space::param: return own();
        case Space::generic: break;
    }
    const std::uint64_t offset = thread.shared_of_generic(address);
    if (offset < thread.in->shared_bytes) return find_shared(thread, offset, bytes);
    const Accessed private_memory = own();
    return private_memory.data != nullptr ? private_memory : find_global(address, bytes);
}

const char* name_of(Space space) {
    constexpr const char* kNames[] = {"generic", "global", "shared", "local", "parameter"};
    return kNames[static_cast<int>(space)];
}

std::string access(Space space, unsigned bytes, bool writes) {
    return std::string(writes ? "a write of " : "a read of ") + std::to_string(bytes) + " bytes of " + name_of(space) + " memory";
}

Accessed accessed(Thread& thread, Space space, std::uint64_t address, unsigned bytes, bool writes, int place) {
    static std::uint8_t nowhere[16];
    if (address % bytes != 0) [[unlikely]]
        fail(thread, "not aligned: " + access(space, bytes, writes), place);
    const Accessed found = find(thread, space, address, bytes);
    if (found.data != nullptr) [[likely]]
        return found;
    fail(thread, "out of bounds: " + access(space, bytes, writes), place);
    return {nowhere, nullptr, false};
}

// A byte that another thread wrote since the last barrier, or read while this one writes; that another block of the launch wrote; shared memory
// that nobody wrote.
void watch(const Thread& thread, const Accessed& found, Space space, unsigned bytes, bool writes, int place) {
    const Block& block = *thread.in;
    const Touch self(stretch, thread.number);
    for (unsigned i = 0; i < bytes; ++i) {
        Touched& byte = found.touched[i];
        if (byte.written.conflicts_with(self) || (writes && byte.read.conflicts_with(self))) [[unlikely]]
            fail(thread, "a race of two threads: " + access(space, bytes, writes), place);
        const std::uint64_t written = byte.written.stretch();
        if (found.is_shared) {
            if (!writes && written < block.first_stretch) [[unlikely]]
                fail(thread, "shared memory that nobody wrote: " + access(space, bytes, writes), place);
        } else if (written >= block.first_of_launch && written < block.first_stretch) [[unlikely]] {
            fail(thread, "memory that another block of the launch wrote: " + access(space, bytes, writes), place);
        }
        if (writes) byte.written = self;
        else byte.read = byte.read.conflicts_with(self) ? self.and_others() : self;
    }
}

}  // namespace

const Totals& totals() { return counted; }

void run(const Launch& launch) {
    ++counted.launches;
    const std::uint64_t first_of_launch = stretch + 1;
    counted.threads += std::size_t{launch.threads} * launch.grid.x * launch.grid.y;
    const std::uint32_t blocks = launch.grid.x * launch.grid.y;
    for (std::uint32_t i = 0; i < blocks; ++i) {
        const std::uint32_t number = order().of_block(i, blocks);
        run_block(launch, {number % launch.grid.x, number / launch.grid.x}, first_of_launch);
    }
}

void fail(const Thread& thread, const std::string& what, int place) {
    std::string where = thread.in->kernel->name + ", instruction " + std::to_string(place);
    report_fault(what + " in " + where);
}

std::uint8_t* Thread::checked(Space space, std::uint64_t address, unsigned bytes, bool writes, int place) {
    const Accessed found = accessed(*this, space, address, bytes, writes, place);
    if (found.touched != nullptr) watch(*this, found, space, bytes, writes, place);
    return found.data;
}

std::uint8_t* Thread::atomically(Space space, std::uint64_t address, unsigned bytes, int place) {
    return accessed(*this, space, address, bytes, true, place).data;
}

void Thread::copy_later(std::uint64_t to, std::uint64_t from, unsigned bytes, int place) {
    accessed(*this, Space::shared, to, bytes, true, place);
    accessed(*this, Space::global, from, bytes, false, place);
    copies.push_back({to, from, bytes, place});
}

void Thread::finish_copies() {
    for (const LaterCopy& copy : copies) {
        const std::uint8_t* const from = checked(Space::global, copy.global, copy.bytes, false, copy.place);
        std::memcpy(checked(Space::shared, copy.shared, copy.bytes, true, copy.place), from, copy.bytes);
    }
    copies.clear();
}

bool Thread::wait_for_block(bool any, int place) {
    brings = any;
    wait(*this, State::at_barrier, place);
    return brings;
}

Shuffled Thread::shuffle_down(std::uint32_t value, std::uint32_t distance, std::uint32_t clamp, std::uint32_t lanes, int place) {
    if (lanes != ~0u || clamp > 31) fail(*this, "a shuffle of a part of a warp, which is not known", place);
    shuffle_value = value;
    shuffle_distance = distance;
    shuffle_clamp = clamp;
    wait(*this, State::at_shuffle, place);
    return shuffled;
}

void Thread::trap() {
    fail(*this, "a trap", 0);
    std::abort();
}

std::uint64_t Thread::shared_of_generic(std::uint64_t address) const { return address - reinterpret_cast<std::uintptr_t>(in->shared); }
std::uint64_t Thread::generic_of_shared(std::uint64_t address) const { return reinterpret_cast<std::uintptr_t>(in->shared) + static_cast<std::uint32_t>(address); }

}  // namespace emulator
