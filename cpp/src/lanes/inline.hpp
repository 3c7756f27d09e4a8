// Inlining across a whole kernel is what keeps lanes in registers, so it is required, not suggested.
// Under nvcc the same functions are device code too.
#pragma once

#if defined(__CUDACC__)
#define HUSHVEC_DEVICE __host__ __device__
#else
#define HUSHVEC_DEVICE
#endif

#define HUSHVEC_INLINE HUSHVEC_DEVICE inline __attribute__((always_inline))
#define HUSHVEC_INLINE_LAMBDA __attribute__((always_inline))
#if defined(__CUDACC__)
#define HUSHVEC_COLD HUSHVEC_DEVICE __noinline__
#else
#define HUSHVEC_COLD __attribute__((noinline, cold))
#endif

// Loops over the words of a block must vanish on a device, where they index registers; the host's compilers see to their own.
#if defined(__CUDACC__)
#define HUSHVEC_PRAGMA(text) _Pragma(#text)
#define HUSHVEC_UNROLL HUSHVEC_PRAGMA(unroll)
#define HUSHVEC_UNROLL_BY(count) HUSHVEC_PRAGMA(unroll count)
#else
#define HUSHVEC_UNROLL
#define HUSHVEC_UNROLL_BY(count)
#endif

// Before a loop on the CPU whose iterations wait for themselves: two side by side, which compilers do not do unasked. Before one whose
// iterations fill the registers: one.
#if defined(__CUDACC__)
#define HUSHVEC_TWO_AT_ONCE
#define HUSHVEC_ONE_AT_A_TIME
#elif defined(__clang__)
#define HUSHVEC_TWO_AT_ONCE _Pragma("unroll 2")
#define HUSHVEC_ONE_AT_A_TIME _Pragma("nounroll")
#else
#define HUSHVEC_TWO_AT_ONCE _Pragma("GCC unroll 2")
#define HUSHVEC_ONE_AT_A_TIME _Pragma("GCC unroll 1")
#endif

// Before a loop on the CPU whose iterations touch nothing of each other's, where compilers cannot see that.
#if defined(__clang__)
#define HUSHVEC_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define HUSHVEC_INDEPENDENT _Pragma("GCC ivdep")
#endif
