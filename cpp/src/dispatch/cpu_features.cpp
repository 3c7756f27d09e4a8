#include "dispatch/cpu_features.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace hushvec {

#if defined(__x86_64__)
namespace {

struct Registers {
    unsigned a = 0, b = 0, c = 0, d = 0;
};

// Zeros for a leaf that the processor does not have.
Registers cpuid(unsigned leaf) {
    Registers r;
    if (__get_cpuid_count(leaf, 0, &r.a, &r.b, &r.c, &r.d) == 0) return {};
    return r;
}

}  // namespace

// Of these, __builtin_cpu_supports knows only some under every compiler: Clang 14 has no name for F16C.
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && (cpuid(1).c & bit_F16C) != 0; }
bool has_avx512() {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
bool has_aes_ni() { return (cpuid(1).c & bit_AES) != 0; }
bool has_vaes() {
    constexpr unsigned kVaes = 1u << 9;   // leaf 7, register C
    return has_avx2() && has_aes_ni() && (cpuid(7).c & kVaes) != 0;
}
#elif defined(__aarch64__)
bool has_neon_aes() { return (getauxval(AT_HWCAP) & HWCAP_AES) != 0; }
#endif

}  // namespace hushvec
