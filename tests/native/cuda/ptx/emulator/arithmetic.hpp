// What PTX instructions compute, where C++ has no operator for it (PTX ISA 9.0, chapter "Instruction set").
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace emulator {

// ---- registers hold bits ----

template <class T>
T bits_as(std::uint64_t bits) {
    T value;
    std::memcpy(&value, &bits, sizeof value);   // the low bytes
    return value;
}

inline std::uint32_t bits_of(float value) { return bits_as<std::uint32_t>(std::bit_cast<std::uint32_t>(value)); }
inline std::uint64_t bits_of(double value) { return std::bit_cast<std::uint64_t>(value); }

template <class T>
T loaded(const std::uint8_t* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}
template <class T>
void stored(std::uint8_t* to, T value) {
    std::memcpy(to, &value, sizeof value);
}

// ---- integers ----

template <class T>
constexpr unsigned kBits = 8 * sizeof(T);
template <class T>
using Twice = std::conditional_t<sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>,
                                 std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>;

template <class T>
T multiply_high(T a, T b) { return static_cast<T>((Twice<T>(a) * Twice<T>(b)) >> kBits<T>); }
template <class T>
T shift_left(T a, std::uint32_t count) { return count >= kBits<T> ? T{0} : static_cast<T>(a << count); }
template <class T>   // beyond the width the sign is left
T shift_right(T a, std::uint32_t count) { return static_cast<T>(a >> std::min(count, kBits<T> - 1)) & (count >= kBits<T> && !std::is_signed_v<T> ? T{0} : static_cast<T>(~T{0})); }

// b:a shifted, of which one word is left.
inline std::uint32_t funnel_shift_l_wrap(std::uint32_t a, std::uint32_t b, std::uint32_t count) {
    return static_cast<std::uint32_t>(((std::uint64_t{b} << 32 | a) << (count % 32)) >> 32);
}
inline std::uint32_t funnel_shift_r_wrap(std::uint32_t a, std::uint32_t b, std::uint32_t count) {
    return static_cast<std::uint32_t>((std::uint64_t{b} << 32 | a) >> (count % 32));
}
inline std::uint32_t funnel_shift_l_clamp(std::uint32_t a, std::uint32_t b, std::uint32_t count) {
    return count >= 32 ? a : funnel_shift_l_wrap(a, b, count);
}
inline std::uint32_t funnel_shift_r_clamp(std::uint32_t a, std::uint32_t b, std::uint32_t count) {
    return count >= 32 ? b : funnel_shift_r_wrap(a, b, count);
}

template <class T>
T add_with_carry(T a, T b, bool carry_in, bool& carry_out) {
    const auto sum = static_cast<unsigned __int128>(a) + b + carry_in;
    carry_out = sum >> kBits<T> != 0;
    return static_cast<T>(sum);
}
template <class T>
T sub_with_carry(T a, T b, bool borrow_in, bool& borrow_out) {
    borrow_out = static_cast<unsigned __int128>(a) < static_cast<unsigned __int128>(b) + borrow_in;
    return static_cast<T>(a - b - borrow_in);
}

template <class T>
std::uint32_t leading_zeros(T a) { return static_cast<std::uint32_t>(std::countl_zero(a)); }
template <class T>
std::uint32_t ones(T a) { return static_cast<std::uint32_t>(std::popcount(a)); }
inline std::uint32_t leading_zeros_or_none(std::uint32_t a) { return a == 0 ? ~0u : leading_zeros(a); }   // bfind.shiftamt
template <class T>
T reverse_bits(T a) {
    T result = 0;
    for (unsigned i = 0; i < kBits<T>; ++i) result = static_cast<T>(result << 1 | (a >> i & 1));
    return result;
}
template <class T>
T field_mask(std::uint32_t length) { return length >= kBits<T> ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << length) - 1); }
template <class T>   // a into b
T insert_field(T a, T b, std::uint32_t position, std::uint32_t length) {
    const T mask = shift_left(field_mask<T>(length & 0xFF), position & 0xFF);
    return (b & ~mask) | (shift_left(a, position & 0xFF) & mask);
}
template <class T>
T extract_field(T a, std::uint32_t position, std::uint32_t length) {
    return shift_right(a, position & 0xFF) & field_mask<T>(length & 0xFF);
}
inline std::uint32_t permute_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
    const std::uint64_t bytes = std::uint64_t{b} << 32 | a;
    std::uint32_t result = 0;
    for (unsigned i = 0; i < 4; ++i) {
        const unsigned choice = selector >> (4 * i) & 0xF;
        std::uint32_t byte = bytes >> (8 * (choice & 7)) & 0xFF;
        if (choice & 8) byte = byte & 0x80 ? 0xFF : 0;   // its sign
        result |= byte << (8 * i);
    }
    return result;
}
inline std::uint32_t logic_of_three(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t table) {
    std::uint32_t result = 0;
    for (unsigned i = 0; i < 8; ++i) {
        if (table >> i & 1) result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    }
    return result;
}

// ---- floating point ----

// A float32 operation makes one NaN alone; a float64 operation keeps a payload.
inline float number(float value) { return value == value ? value : std::bit_cast<float>(0x7FFFFFFFu); }
inline double number(double value) { return value; }

template <class T>
bool unordered(T a, T b) { return std::isunordered(a, b); }

// A number rather than NaN, and -0 below +0.
template <class T>
T min_number(T a, T b) {
    if (unordered(a, b)) return number(a == a ? a : b);
    return a == b ? (std::signbit(a) ? a : b) : std::min(a, b);
}
template <class T>
T max_number(T a, T b) {
    if (unordered(a, b)) return number(a == a ? a : b);
    return a == b ? (std::signbit(a) ? b : a) : std::max(a, b);
}

inline float half_to_float(std::uint16_t half) { return static_cast<float>(std::bit_cast<_Float16>(half)); }
inline std::uint16_t half_of(float value) { return value == value ? std::bit_cast<std::uint16_t>(static_cast<_Float16>(value)) : std::uint16_t{0x7FFF}; }
inline std::uint16_t bfloat16_of(float value) {
    if (value != value) return 0x7FFF;
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// To an integer type, at its ends where the number lies beyond; NaN is 0, or 2^63 from or to 64 bits.
template <class T, class F>
T saturated(F whole) {
    if (whole != whole) return sizeof(F) == 8 || sizeof(T) == 8 ? static_cast<T>(T{1} << (kBits<T> - 1)) : T{0};
    const long double value = whole;
    if (value <= static_cast<long double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
    if (value >= static_cast<long double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
    return static_cast<T>(whole);
}

// ---- the approximate instructions ----
//
// The nearest float32, or, if HUSHVEC_EMULATED_ERROR is not 0, that many times the documented error away at most: by a hash of the operand, so
// that an operand has one result. ftz: what is subnormal counts as 0, before and after.

float perturbed(double value, double operand, double relative, double absolute);   // memory.cpp

inline float flushed(float value) { return std::fabs(value) < std::numeric_limits<float>::min() ? std::copysign(0.0f, value) : value; }

inline float approximate_rsqrt(float operand) {
    const float a = flushed(operand);
    return flushed(number(perturbed(1 / std::sqrt(double{a}), a, 0x1p-22 / 1.8660659830736148, 0)));   // 2^-22.9
}
inline float approximate_rcp(float operand) {
    const float a = flushed(operand);
    return flushed(number(perturbed(1 / double{a}, a, 0x1p-23, 0)));
}
inline float approximate_sqrt(float operand) {
    const float a = flushed(operand);
    return flushed(number(perturbed(std::sqrt(double{a}), a, 0x1p-23, 0)));
}
inline float approximate_lg2(float operand) {
    const float a = flushed(operand);
    const bool near_one = a > 0.5f && a < 2;
    return flushed(number(perturbed(std::log2(double{a}), a, near_one ? 0 : 0x1p-22, near_one ? 0x1p-22 : 0)));
}
inline float approximate_sin(float operand) { return flushed(number(perturbed(std::sin(double{flushed(operand)}), operand, 0, 6.75e-7))); }   // 2^-20.5
inline float approximate_cos(float operand) { return flushed(number(perturbed(std::cos(double{flushed(operand)}), operand, 0, 6.75e-7))); }
// Of the high half of the operand, and a high half too.
inline double approximate_rcp(double operand) {
    const auto high = [](double value) { return std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) & 0xFFFFFFFF00000000u); };
    const double result = high(1 / high(operand));
    return std::fabs(result) < std::numeric_limits<double>::min() ? std::copysign(0.0, result) : result;
}

}  // namespace emulator
