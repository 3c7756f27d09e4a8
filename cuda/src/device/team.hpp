// The threads of one block, phase by phase: on the device all of them at once with a barrier behind, on the host a loop.
//
// A block's work is written as phases that only meet through shared memory. That makes a host run of the same code
// a faithful one, whatever the order of threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lanes/inline.hpp"

namespace hushvec::cuda {

inline constexpr unsigned kWarp = 32;

// acc[k] += acc[k + h] for h = 16, 8, 4, 2, 1, read from the root down.
template <unsigned kStep = 1>
HUSHVEC_DEVICE inline double tree_sum(const double* accumulators, unsigned k = 0) {
    if constexpr (kStep == kWarp) {
        return accumulators[k];
    } else {
        const double left = tree_sum<2 * kStep>(accumulators, k);
        return left + tree_sum<2 * kStep>(accumulators, k + kStep);
    }
}

struct HostTeam {
    unsigned threads;

    template <class Phase>
    void each(Phase phase) const {
        for (unsigned thread = 0; thread < threads; ++thread) phase(thread);
    }

    // Whether the phase returns true in any thread.
    template <class Phase>
    bool any(Phase phase) const {
        bool result = false;
        for (unsigned thread = 0; thread < threads; ++thread) result |= phase(thread);
        return result;
    }

    // For every i < count: done(i, the tree of term(i, 0) .. term(i, 31)). A phase of its own, a warp for each i.
    template <class Term, class Done>
    void sums(std::uint32_t count, Term term, Done done) const {
        for (std::uint32_t i = 0; i < count; ++i) {
            double terms[kWarp];
            for (unsigned t = 0; t < kWarp; ++t) terms[t] = term(i, t);
            done(i, tree_sum(terms));
        }
    }
};

#if defined(__CUDACC__)
struct DeviceTeam {
    template <class Phase>
    __device__ __forceinline__ void each(Phase phase) const {
        phase(threadIdx.x);
        __syncthreads();
    }

    template <class Phase>
    __device__ __forceinline__ bool any(Phase phase) const { return __syncthreads_or(phase(threadIdx.x)); }

    template <class Term, class Done>
    __device__ __forceinline__ void sums(std::uint32_t count, Term term, Done done) const {
        const unsigned t = threadIdx.x % kWarp;
        for (std::uint32_t i = threadIdx.x / kWarp; i < count; i += blockDim.x / kWarp) {
            double sum = term(i, t);
            for (unsigned h = kWarp / 2; h > 0; h /= 2) sum += __shfl_down_sync(0xFFFFFFFFu, sum, h);
            if (t == 0) done(i, sum);
        }
        __syncthreads();
    }
};
#endif

// 16 bytes from global to shared memory, from sm_80 on without passing through registers; they have arrived after wait_for_copies.
HUSHVEC_INLINE void copy_16_bytes(void* shared, const void* global) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    *static_cast<uint4*>(shared) = *static_cast<const uint4*>(global);
#elif defined(__CUDA_ARCH__)
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global) : "memory");
#else
    std::memcpy(shared, global, 16);
#endif
}

// Before the barrier that lets other threads read what this one copied.
HUSHVEC_INLINE void wait_for_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

HUSHVEC_INLINE void atomic_minimum(std::uint64_t* target, std::uint64_t value) {
#if defined(__CUDA_ARCH__)
    atomicMin(reinterpret_cast<unsigned long long*>(target), static_cast<unsigned long long>(value));
#else
    if (value < *target) *target = value;
#endif
}

// The value before.
HUSHVEC_INLINE std::uint32_t atomic_increment(std::uint32_t* target) {
#if defined(__CUDA_ARCH__)
    return atomicAdd(target, 1u);
#else
    return (*target)++;
#endif
}

// The value before.
HUSHVEC_INLINE std::uint64_t atomic_add(std::uint64_t* target, std::uint64_t value) {
#if defined(__CUDA_ARCH__)
    return atomicAdd(reinterpret_cast<unsigned long long*>(target), static_cast<unsigned long long>(value));
#else
    return std::atomic_ref(*target).fetch_add(value, std::memory_order_relaxed);
#endif
}

// How many of the `count` items from `first` on there are, up to `most`.
HUSHVEC_INLINE std::uint32_t left_from(std::size_t first, std::size_t count, std::uint32_t most) {
    if (first >= count) return 0;
    return count - first < most ? static_cast<std::uint32_t>(count - first) : most;
}

}  // namespace hushvec::cuda
