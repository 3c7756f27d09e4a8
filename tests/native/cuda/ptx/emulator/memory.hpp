// Memory of the emulated device: what is allocated, and who touched which byte since the last barrier.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace emulator {

// Who touched a byte last, and when: the stretch between two barriers of one block in which that was, and the thread. Stretches are counted over
// the whole run, so that nothing needs to be reset.
class Touch {
public:
    Touch() = default;
    Touch(std::uint64_t stretch, std::uint32_t thread) : tag_(stretch << 16 | thread << 1) {}
    std::uint64_t stretch() const { return tag_ >> 16; }
    // In this stretch, and by another thread than `self`, or by several.
    bool conflicts_with(Touch self) const { return stretch() == self.stretch() && tag_ != self.tag_; }
    Touch and_others() const {
        Touch result = *this;
        result.tag_ |= 1;
        return result;
    }

private:
    std::uint64_t tag_ = 0;
};

struct Touched {
    Touch written, read;
};

struct Allocation {
    std::uint8_t* data;
    std::size_t bytes;
    int device;
    std::vector<Touched> touched;   // made at the first access by a kernel
};

class Memory {
public:
    std::uint8_t* allocate(std::size_t bytes, int device);
    bool release(void* data);
    // The allocation that holds all of it, or null.
    Allocation* find(std::uint64_t address, std::size_t bytes);
    void add_constant(const void* data, std::size_t bytes);
    bool is_constant(std::uint64_t address, std::size_t bytes) const;

private:
    std::map<std::uint64_t, Allocation> allocations_;
    std::map<std::uint64_t, std::size_t> constants_;
    std::array<Allocation*, 4> recent_ = {};   // the last ones found, in turn
    std::size_t next_recent_ = 0;
};

Memory& memory();

// What went wrong in kernels, each kind once with its place; printed at the end, and counted.
void report_fault(const std::string& what);
std::size_t fault_count();

}  // namespace emulator
