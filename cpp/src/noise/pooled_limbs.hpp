// Limbs without a heap, for device code: in the shared memory of the one thread that settles samples.
//
// In a stack frame, the numbers of the multiprecision level take 1.5 KB. A device sets stacks aside for all threads that it could hold
// at once, so that would be hundreds of megabytes, taken while the first such kernel is launched: within a graph capture, an error.
// On the host the pool belongs to the thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "lanes/inline.hpp"

namespace hushvec {

template <std::size_t kCapacity>
class PooledLimbs {
public:
    HUSHVEC_DEVICE explicit PooledLimbs(std::size_t size) : size_(static_cast<std::uint32_t>(size)), slot_(take()) {
        for (std::size_t i = 0; i < size; ++i) (*this)[i] = 0;
    }
    HUSHVEC_DEVICE PooledLimbs(const PooledLimbs& other) : size_(other.size_), slot_(take()) { copy(other); }
    HUSHVEC_DEVICE PooledLimbs& operator=(const PooledLimbs& other) {
        size_ = other.size_;
        copy(other);
        return *this;
    }
    HUSHVEC_DEVICE ~PooledLimbs() { pool().taken &= ~(1U << slot_); }

    HUSHVEC_DEVICE std::size_t size() const { return size_; }
    HUSHVEC_DEVICE std::uint32_t& operator[](std::size_t i) { return pool().limbs[slot_][i]; }
    HUSHVEC_DEVICE const std::uint32_t& operator[](std::size_t i) const { return pool().limbs[slot_][i]; }

    // Before the first number: shared memory holds anything.
    HUSHVEC_DEVICE static void clear_pool() { pool().taken = 0; }

private:
    static constexpr std::uint32_t kSlots = 32;

    struct Pool {
        std::uint32_t taken;   // a bit for each slot
        std::uint32_t limbs[kSlots][kCapacity];
    };

    HUSHVEC_COLD static Pool& pool() {
#if defined(__CUDA_ARCH__)
        __shared__ Pool shared;
        return shared;
#else
        static thread_local Pool shared;
        return shared;
#endif
    }

    // How many numbers live at once does not depend on their values: tests see that the slots suffice.
    HUSHVEC_COLD static std::uint32_t take() {
        Pool& all = pool();
        std::uint32_t slot = 0;
        while (slot < kSlots && (all.taken >> slot & 1) != 0) ++slot;
        if (slot == kSlots) out_of_slots();
        all.taken |= 1U << slot;
        return slot;
    }

    HUSHVEC_DEVICE static void out_of_slots() {
#if defined(__CUDA_ARCH__)
        __trap();
#else
        std::abort();
#endif
    }

    HUSHVEC_COLD void copy(const PooledLimbs& other) {
        for (std::size_t i = 0; i < size_; ++i) (*this)[i] = other[i];
    }

    std::uint32_t size_;   // at most kCapacity
    std::uint32_t slot_;
};

}  // namespace hushvec
