// The sums of a ClippedSum in memory, in whole units: int32 while that holds them, then float64.
//
// Long sums are as much work for memory as several rows, so they are kept short for as long as can be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "clip/clipped_sum_kernels.hpp"
#include "os/os.hpp"

namespace hushvec {

// Runs of a part begin at multiples of this, in elements, and may be put and read in multiples of it.
inline constexpr std::size_t kSumPadding = 16;

constexpr std::size_t padded(std::size_t count) { return (count + kSumPadding - 1) / kSumPadding * kSumPadding; }

class UnitSums {
public:
    explicit UnitSums(const std::vector<std::size_t>& columns);

    // Room for the sum of this many rows. What is there stays if `keep`. Throws std::bad_alloc, and then nothing has changed.
    void make_room(std::size_t rows, bool keep);

    void clear();
    void clear(std::size_t part);

    // Where the sums of a part lie, while there is room for no more than kRowsInOneSum rows.
    std::uint32_t* integers(std::size_t part) { return narrow_.get() + offsets_[part]; }

    // A run of part `part` that begins at column `first`; `count` is padded.
    void put(std::size_t part, std::size_t first, const std::uint32_t* integers, std::size_t count, Put put);
    // Sums of the same columns, of no more rows than there is room for.
    void put(const UnitSums& other, Put put);
    // All of part `part`, of no more rows than there is room for. What is behind it, up to the padding, becomes 0.
    void store(std::size_t part, const double* units, std::size_t count);
    void read(std::size_t part, std::size_t first, std::size_t count, double* out) const;

private:
    struct Free {
        void operator()(void* memory) const { os::free_aligned(memory); }
    };
    template <class Element>
    using Memory = std::unique_ptr<Element[], Free>;
    template <class Element>
    static Memory<Element> memory_of(std::size_t count);

    std::vector<std::size_t> offsets_;   // of each part
    std::size_t count_ = 0;
    Memory<std::uint32_t> narrow_;   // two's complement; one of the two is there
    Memory<double> wide_;
};

}  // namespace hushvec
