// Rows of PrivUnitG that float64 leaves open, with their directions: x may be gone by the time that the host settles them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/team.hpp"
#include "hushvec_cuda/source.hpp"

namespace hushvec::cuda {

// A row is listed mostly for a uniform that begins with 32 zero bits, in any of the groups that the row touches: with a chance of 2^-32 for
// each pair of samples. Room for four times as many as there should be and 64 more; a call in 10^40 has more than that.
constexpr std::size_t open_row_capacity(std::size_t rows, std::size_t groups_of_a_row) {
    const double expected = static_cast<double>(rows) * static_cast<double>(groups_of_a_row * kGroupPairs) * 0x1p-32;
    const std::size_t most = 64 + static_cast<std::size_t>(4 * expected);
    return rows < most ? rows : most;
}

struct OpenRows {
    Report* report;              // its open_samples counts rows
    std::uint64_t* rows;
    float* directions;           // of `columns` elements each
    std::uint32_t capacity;

    // Its place in the list; there is none from `capacity` on.
    HUSHVEC_DEVICE std::uint32_t add(std::uint64_t row) const {
        const std::uint32_t slot = atomic_increment(&report->open_samples);
        if (slot < capacity) {
            rows[slot] = row;
        } else if (slot == capacity) {   // one thread
            report->overflow = 1;
        }
        return slot;
    }
};

}  // namespace hushvec::cuda
