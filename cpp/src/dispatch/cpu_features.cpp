#include "dispatch/cpu_features.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include "os/os.hpp"
#endif

namespace hushvec {

// Not __builtin_cpu_supports: Clang 14 has no name for F16C, and zig links without the library that it reads.
#if defined(__x86_64__)
namespace {

struct Registers {
    unsigned a = 0, b = 0, c = 0, d = 0;
};

constexpr unsigned kSavesYmm = 0x06, kSavesZmm = 0xE6;   // XCR0: the state that the system keeps for each thread
constexpr unsigned kVaes = 1u << 9;                      // leaf 7, register C

// Zeros for a leaf that the processor does not have.
Registers cpuid(unsigned leaf) {
    Registers r;
    if (__get_cpuid_count(leaf, 0, &r.a, &r.b, &r.c, &r.d) == 0) return {};
    return r;
}

bool system_saves(unsigned state) {
    if ((cpuid(1).c & bit_OSXSAVE) == 0) return false;
    unsigned low = 0, high = 0;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & state) == state;
}

constexpr bool has_all(unsigned value, unsigned bits) { return (value & bits) == bits; }

}  // namespace

bool has_avx2() {
    return has_all(cpuid(1).c, bit_AVX | bit_FMA | bit_F16C) && has_all(cpuid(7).b, bit_AVX2) && system_saves(kSavesYmm);
}
bool has_avx512() {
    return has_avx2() && has_all(cpuid(7).b, bit_AVX512F | bit_AVX512CD | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL) && system_saves(kSavesZmm);
}
bool has_aes_ni() { return has_all(cpuid(1).c, bit_AES); }
bool has_vaes() { return has_avx2() && has_aes_ni() && has_all(cpuid(7).c, kVaes); }
#elif defined(__aarch64__)
bool has_neon_aes() { return os::has_arm_aes(); }
#endif

}  // namespace hushvec
