// A block of threads, each a fiber that runs until it waits: at a barrier, at a shuffle, or at its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory.hpp"
#include "thread.hpp"

namespace emulator {

struct Launch {
    const Kernel* kernel;
    Place grid;
    std::uint32_t threads;
    std::size_t dynamic_bytes;
    std::vector<std::uint8_t> parameters;   // one after the other, each aligned to 16
    std::vector<std::size_t> offsets;
};

void run(const Launch& launch);

struct Totals {
    std::size_t launches = 0, threads = 0, barriers = 0;
};
const Totals& totals();

// What the threads of a block share.
struct Block {
    const Kernel* kernel = nullptr;
    std::vector<std::uint8_t> storage;
    std::uint8_t* shared = nullptr;
    std::size_t shared_bytes = 0;
    std::vector<Touched> touched;          // of shared memory, byte by byte
    std::uint64_t first_stretch = 0;       // of this block; what was written before it is not initialized
    std::uint64_t first_of_launch = 0;
};

}  // namespace emulator
