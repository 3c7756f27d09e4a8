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
