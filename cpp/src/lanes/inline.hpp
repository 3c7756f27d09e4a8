// Inlining across a whole kernel is what keeps lanes in registers, so it is required, not suggested.
#pragma once

#define HUSHVEC_INLINE inline __attribute__((always_inline))
#define HUSHVEC_INLINE_LAMBDA __attribute__((always_inline))
#define HUSHVEC_COLD __attribute__((noinline, cold))
