// What this processor has, by its feature bits.
#pragma once

namespace hushvec {

#if defined(__x86_64__)
bool has_avx2();     // with FMA and F16C
bool has_avx512();   // F, CD, DQ, BW, VL, and AVX2
bool has_aes_ni();
bool has_vaes();     // on ymm registers; on zmm where there is AVX-512 too
#elif defined(__aarch64__)
bool has_neon_aes();
#endif

}  // namespace hushvec
