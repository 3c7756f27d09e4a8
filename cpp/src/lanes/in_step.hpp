// Several vectors of lanes as one: each operation is made on all of them before the next one. A processor's schedulers hold some sixty
// instructions, fewer than the chain of one vector of noise, and would wait for one chain after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "lanes/inline.hpp"

namespace hushvec {

template <class V, std::size_t count>
struct InStep {
    static constexpr std::size_t lanes = count * V::lanes;
    struct U32 {
        typename V::U32 part[count];
    };
    struct F32 {
        typename V::F32 part[count];
    };
    struct F64Pair {
        typename V::F64Pair part[count];
    };
    struct Mask {
        typename V::Mask part[count];
    };

    static HUSHVEC_INLINE U32 load(const std::uint32_t* p) {
        return each<U32>([&](std::size_t i) HUSHVEC_INLINE_LAMBDA { return V::load(p + i * V::lanes); });
    }
    static HUSHVEC_INLINE F32 load(const float* p, std::size_t step = 1) {   // step 0: all of them are the first
        return each<F32>([&](std::size_t i) HUSHVEC_INLINE_LAMBDA { return V::load(p + i * V::lanes * step); });
    }
    static HUSHVEC_INLINE F64Pair load(const double* p, std::size_t step = 1) {
        return each<F64Pair>([&](std::size_t i) HUSHVEC_INLINE_LAMBDA { return V::load(p + i * V::lanes * step); });
    }
    static HUSHVEC_INLINE void store(float* p, F32 v) {
        for (std::size_t i = 0; i < count; ++i) V::store(p + i * V::lanes, v.part[i]);
    }
    static HUSHVEC_INLINE U32 set(std::uint32_t x) {
        return each<U32>([&](std::size_t) HUSHVEC_INLINE_LAMBDA { return V::set(x); });
    }
    static HUSHVEC_INLINE F32 set(float x) {
        return each<F32>([&](std::size_t) HUSHVEC_INLINE_LAMBDA { return V::set(x); });
    }

#define HUSHVEC_EACH(Result, ...) each<Result>([&](std::size_t i) HUSHVEC_INLINE_LAMBDA { return __VA_ARGS__; })
    static HUSHVEC_INLINE U32 add(U32 a, U32 b) { return HUSHVEC_EACH(U32, V::add(a.part[i], b.part[i])); }
    static HUSHVEC_INLINE U32 sub(U32 a, U32 b) { return HUSHVEC_EACH(U32, V::sub(a.part[i], b.part[i])); }
    static HUSHVEC_INLINE U32 bit_xor(U32 a, U32 b) { return HUSHVEC_EACH(U32, V::bit_xor(a.part[i], b.part[i])); }
    static HUSHVEC_INLINE U32 bit_and(U32 a, U32 b) { return HUSHVEC_EACH(U32, V::bit_and(a.part[i], b.part[i])); }
    static HUSHVEC_INLINE U32 bit_or(U32 a, U32 b) { return HUSHVEC_EACH(U32, V::bit_or(a.part[i], b.part[i])); }
    template <int Bits> static HUSHVEC_INLINE U32 shift_left(U32 a) { return HUSHVEC_EACH(U32, V::template shift_left<Bits>(a.part[i])); }
    template <int Bits> static HUSHVEC_INLINE U32 shift_right(U32 a) { return HUSHVEC_EACH(U32, V::template shift_right<Bits>(a.part[i])); }
    template <int Bits> static HUSHVEC_INLINE U32 shift_right_signed(U32 a) {
        return HUSHVEC_EACH(U32, V::template shift_right_signed<Bits>(a.part[i]));
    }

    static HUSHVEC_INLINE F32 to_float_signed(U32 a) { return HUSHVEC_EACH(F32, V::to_float_signed(a.part[i])); }
    static HUSHVEC_INLINE U32 bits_of(F32 a) { return HUSHVEC_EACH(U32, V::bits_of(a.part[i])); }
    static HUSHVEC_INLINE F32 of_bits(U32 a) { return HUSHVEC_EACH(F32, V::of_bits(a.part[i])); }
    static HUSHVEC_INLINE F32 flip_sign(F32 value, U32 word) { return HUSHVEC_EACH(F32, V::flip_sign(value.part[i], word.part[i])); }
    static HUSHVEC_INLINE F32 add(F32 a, F32 b) { return HUSHVEC_EACH(F32, V::add(a.part[i], b.part[i])); }
    static HUSHVEC_INLINE F32 sub(F32 a, F32 b) { return HUSHVEC_EACH(F32, V::sub(a.part[i], b.part[i])); }
    static HUSHVEC_INLINE F32 mul(F32 a, F32 b) { return HUSHVEC_EACH(F32, V::mul(a.part[i], b.part[i])); }
    static HUSHVEC_INLINE F32 multiply_add(F32 a, F32 b, F32 c) { return HUSHVEC_EACH(F32, V::multiply_add(a.part[i], b.part[i], c.part[i])); }
    static HUSHVEC_INLINE F32 negative_multiply_add(F32 a, F32 b, F32 c) {
        return HUSHVEC_EACH(F32, V::negative_multiply_add(a.part[i], b.part[i], c.part[i]));
    }
    static HUSHVEC_INLINE F32 sqrt(F32 a) { return HUSHVEC_EACH(F32, V::sqrt(a.part[i])); }
    static HUSHVEC_INLINE F32 magnitude(F32 a) { return HUSHVEC_EACH(F32, V::magnitude(a.part[i])); }
    static HUSHVEC_INLINE F32 larger_magnitude(F32 a, F32 b) { return HUSHVEC_EACH(F32, V::larger_magnitude(a.part[i], b.part[i])); }

    static HUSHVEC_INLINE F64Pair mul(F64Pair a, F64Pair b) { return HUSHVEC_EACH(F64Pair, V::mul(a.part[i], b.part[i])); }
    static HUSHVEC_INLINE F64Pair sub(F64Pair a, F64Pair b) { return HUSHVEC_EACH(F64Pair, V::sub(a.part[i], b.part[i])); }
    static HUSHVEC_INLINE F64Pair widen(F32 a) { return HUSHVEC_EACH(F64Pair, V::widen(a.part[i])); }
    static HUSHVEC_INLINE F32 narrow(F64Pair a) { return HUSHVEC_EACH(F32, V::narrow(a.part[i])); }

    static HUSHVEC_INLINE Mask not_less(F32 a, F32 b) { return HUSHVEC_EACH(Mask, V::not_less(a.part[i], b.part[i])); }
    static HUSHVEC_INLINE Mask greater_signed(U32 a, U32 b) { return HUSHVEC_EACH(Mask, V::greater_signed(a.part[i], b.part[i])); }
    static HUSHVEC_INLINE F32 select(Mask m, F32 a, F32 b) { return HUSHVEC_EACH(F32, V::select(m.part[i], a.part[i], b.part[i])); }
#undef HUSHVEC_EACH
    static HUSHVEC_INLINE std::uint64_t bits(Mask m) {
        std::uint64_t all = 0;
        for (std::size_t i = 0; i < count; ++i) all |= std::uint64_t{V::bits(m.part[i])} << (i * V::lanes);
        return all;
    }

    class Table16 {
    public:
        explicit Table16(const float* numbers) : one_(numbers) {}
        HUSHVEC_INLINE F32 at(U32 index) const {
            return each<F32>([&](std::size_t i) HUSHVEC_INLINE_LAMBDA { return one_.at(index.part[i]); });
        }

    private:
        typename V::Table16 one_;
    };

private:
    template <class Result, class Part>
    static HUSHVEC_INLINE Result each(Part part_of) {
        Result result;
        for (std::size_t i = 0; i < count; ++i) result.part[i] = part_of(i);
        return result;
    }
};

// Sixteen lanes of AVX-512 come with 32 registers, which hold `count` vectors beside the constants; fewer lanes work one vector at a time.
template <class V, std::size_t count>
using Abreast = std::conditional_t<V::lanes == 16, InStep<V, count>, V>;

}  // namespace hushvec
