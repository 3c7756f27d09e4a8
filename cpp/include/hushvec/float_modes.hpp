// The floating-point modes in which every result here is computed: rounding to nearest, subnormal numbers kept, no traps.
//
// A thread has modes of its own, and other code may have set them: torch.set_flush_denormal, fesetround, a library that was linked with
// -ffast-math. With subnormal numbers flushed some released bits would differ, with another rounding all of them, and no proof would hold.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#include <cfenv>
#endif

namespace hushvec {

// Sets the modes of this thread, and puts back what it found. The sticky exception flags stay what they have become. 6 ns where nothing
// has to be changed, else 20 (an AMD core). On x86-64 this is MXCSR, on AArch64 FPCR; the x87 control word, which nothing here depends
// on, is left alone.
class FloatModes {
public:
    FloatModes() : found_(read()), changed_((found_ & kControls) != kPlain) {
        if (changed_) write((found_ & ~kControls) | kPlain);
    }
    ~FloatModes() {
        if (changed_) write((read() & ~kControls) | (found_ & kControls));
    }
    FloatModes(const FloatModes&) = delete;
    FloatModes& operator=(const FloatModes&) = delete;

private:
#if defined(__x86_64__)
    using Register = std::uint32_t;
    static constexpr Register kControls = 0xFFC0;   // flush to zero, rounding, exception masks, denormals are zero; below them the flags
    static constexpr Register kPlain = 0x1F80;      // all exceptions masked
    static Register read() { return _mm_getcsr(); }
    static void write(Register value) { _mm_setcsr(value); }
#elif defined(__aarch64__)
    using Register = std::uint64_t;
    static constexpr Register kControls = ~Register{0};   // the flags are in another register
    static constexpr Register kPlain = 0;
    static Register read() {
        Register value;
        asm volatile("mrs %0, fpcr" : "=r"(value));
        return value;
    }
    static void write(Register value) { asm volatile("msr fpcr, %0" : : "r"(value)); }
#else
    using Register = int;
    static constexpr Register kControls = ~0;
    static constexpr Register kPlain = FE_TONEAREST;
    static Register read() { return std::fegetround(); }
    static void write(Register value) { std::fesetround(value); }
#endif

    const Register found_;
    const bool changed_;
};

}  // namespace hushvec
