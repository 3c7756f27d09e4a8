// One thread of a block as the translated code sees it, and what that code registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "arithmetic.hpp"

namespace emulator {

enum class Space { generic,
                   global,
                   shared,
                   local,
                   param };

struct Place {
    std::uint32_t x = 0, y = 0;
};

struct Shuffled {
    std::uint32_t value;
    bool in_range;
};

struct LaterCopy {
    std::uint64_t shared, global;
    unsigned bytes;
    int place;
};

enum class State { runs,
                   at_barrier,
                   at_shuffle,
                   done };

struct Kernel;
struct Block;

struct Thread {
    std::uint32_t number = 0, threads = 0;   // %tid.x, %ntid.x
    Place block, grid;
    std::uint8_t* const* parameters = nullptr;

    // Where `bytes` at an address of a space lie, after all checks. `place`: the instruction, for a message.
    template <Space kSpace, unsigned kBytes>
    const std::uint8_t* readable(std::uint64_t address, int place) { return checked(kSpace, address, kBytes, false, place); }
    template <Space kSpace, unsigned kBytes>
    std::uint8_t* writable(std::uint64_t address, int place) { return checked(kSpace, address, kBytes, true, place); }

    template <Space kSpace, class T>
    T atomic_add(std::uint64_t address, T value, int place) {
        return atomic<T>(kSpace, address, place, [&](T before) { return static_cast<T>(before + value); });
    }
    template <Space kSpace, class T>
    T atomic_min(std::uint64_t address, T value, int place) {
        return atomic<T>(kSpace, address, place, [&](T before) { return std::min(before, value); });
    }
    template <Space kSpace, class T>
    T atomic_max(std::uint64_t address, T value, int place) {
        return atomic<T>(kSpace, address, place, [&](T before) { return std::max(before, value); });
    }

    // Copies from global to shared memory arrive when the thread waits for them.
    void copy_later(std::uint64_t shared, std::uint64_t global, unsigned bytes, int place);
    void finish_copies();

    // True where any thread of the block brought true.
    bool wait_for_block(bool any, int place);
    Shuffled shuffle_down(std::uint32_t value, std::uint32_t distance, std::uint32_t clamp, std::uint32_t lanes, int place);
    [[noreturn]] void trap();

    std::uint64_t shared_of_generic(std::uint64_t address) const;
    std::uint64_t generic_of_shared(std::uint64_t address) const;

    // ---- the scheduler's (block.cpp) ----
    Block* in = nullptr;
    State state = State::runs;
    int waits_at = 0;
    std::uint32_t shuffle_value = 0, shuffle_distance = 0, shuffle_clamp = 0;
    Shuffled shuffled = {};
    bool brings = false;
    std::vector<LaterCopy> copies;
    void* stack_pointer = nullptr;
    std::uint8_t* stack = nullptr;

private:
    std::uint8_t* checked(Space space, std::uint64_t address, unsigned bytes, bool writes, int place);
    std::uint8_t* atomically(Space space, std::uint64_t address, unsigned bytes, int place);

    template <class T, class Change>
    T atomic(Space space, std::uint64_t address, int place, const Change& change) {
        std::uint8_t* const target = atomically(space, address, sizeof(T), place);
        const T before = loaded<T>(target);
        stored<T>(target, change(before));
        return before;
    }
};

void fail(const Thread& thread, const std::string& what, int place);

template <class T>
T divide(Thread& thread, T a, T b) {
    if (b == 0) fail(thread, "a division by 0", 0);
    return b == 0 ? T{0} : static_cast<T>(a / b);
}
template <class T>
T remainder(Thread& thread, T a, T b) {
    if (b == 0) fail(thread, "a division by 0", 0);
    return b == 0 ? T{0} : static_cast<T>(a % b);
}

// A kernel of the translated code.
struct Kernel {
    std::string name;
    void (*run)(Thread& thread);
    std::uint32_t shared_bytes;   // but for what a launch asks for
    std::vector<std::size_t> parameter_sizes;

    Kernel(const char* kernel_name, void (*function)(Thread&), std::uint32_t shared, std::initializer_list<std::size_t> sizes);
};

// An array of a module.
struct Constant {
    Constant(const void* data, std::size_t bytes);
};

}  // namespace emulator
