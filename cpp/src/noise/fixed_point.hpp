// Multiprecision fixed-point numbers for level 4 of the exact ladder: clear rather than fast.
//
// A number is a sign and 32-bit limbs, least significant first: F = 32 * fraction_limbs bits behind the point and 64 before it.
// An "ulp" is 2^-F. Both operands of an operation have the same F, and every value stays below 2^62 in magnitude;
// the callers' ranges (|X| < 2^25, noise below 2^20) leave room. Sums, differences and left shifts are exact;
// products, quotients and roots are truncated towards zero, so each is off by less than one ulp.
//
// `Limbs` holds the limbs: constructed from their number, all zero; then size() and operator[]. std::vector has any length;
// PooledLimbs (pooled_limbs.hpp) need no heap, for device code. On a device each operation is a call, so that all share a stack frame.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lanes/inline.hpp"

namespace hushvec {

inline constexpr int kLimbBits = 32;
inline constexpr std::size_t kIntegerLimbs = 2;

template <class Limbs>
class FixedPoint {
public:
    HUSHVEC_DEVICE explicit FixedPoint(std::size_t fraction_limbs, std::uint32_t integer = 0) : limbs_(fraction_limbs + kIntegerLimbs) {
        limbs_[fraction_limbs] = integer;
    }

    // 0.first rest[0] rest[1] ... in base 2^32. At most fraction_limbs words.
    HUSHVEC_COLD static FixedPoint from_fraction(std::size_t fraction_limbs, std::uint32_t first, std::span<const std::uint32_t> rest) {
        FixedPoint result(fraction_limbs);
        result.limbs_[fraction_limbs - 1] = first;
        for (std::size_t i = 0; i < rest.size(); ++i) result.limbs_[fraction_limbs - 2 - i] = rest[i];
        return result;
    }

    // 2^exponent, or one ulp where that is more: an upper bound, exact for exponent >= -F. Needs exponent < 62.
    HUSHVEC_COLD static FixedPoint upper_power_of_two(std::size_t fraction_limbs, int exponent) {
        FixedPoint result(fraction_limbs);
        result.set_bit(std::max(exponent + result.fraction_bits(), 0));
        return result;
    }

    // A finite double, truncated towards zero. Needs |value| < 2^62.
    HUSHVEC_COLD static FixedPoint truncated(std::size_t fraction_limbs, double value) {
        // |value| = significand * 2^(max(exponent field, 1) - 1075), the leading one stored unless the field is 0.
        constexpr int kStoredBits = 52;
        constexpr int kSignificandBits = kStoredBits + 1;
        constexpr int kExponentOffset = 1075;
        constexpr std::uint64_t kLeadingOne = std::uint64_t{1} << kStoredBits;
        const auto bits = std::bit_cast<std::uint64_t>(value);
        const auto exponent = static_cast<int>(bits >> kStoredBits & 0x7ff);
        std::uint64_t significand = (bits & (kLeadingOne - 1)) | (exponent != 0 ? kLeadingOne : 0);

        FixedPoint result(fraction_limbs);
        result.negative_ = value < 0;
        int position = std::max(exponent, 1) - kExponentOffset + result.fraction_bits();
        if (position < 0) {
            significand = position > -kSignificandBits ? significand >> -position : 0;
            position = 0;
        }
        result.limbs_[0] = static_cast<std::uint32_t>(significand);
        result.limbs_[1] = static_cast<std::uint32_t>(significand >> kLimbBits);
        result.shift_left(position);
        return result;
    }

    HUSHVEC_DEVICE std::size_t fraction_limbs() const { return limbs_.size() - kIntegerLimbs; }
    HUSHVEC_DEVICE int fraction_bits() const { return static_cast<int>(fraction_limbs()) * kLimbBits; }
    HUSHVEC_DEVICE bool negative() const { return negative_; }
    HUSHVEC_DEVICE std::size_t size() const { return limbs_.size(); }
    HUSHVEC_DEVICE std::uint32_t limb(std::size_t i) const { return limbs_[i]; }

    HUSHVEC_DEVICE bool is_zero() const {
        for (std::size_t i = 0; i < limbs_.size(); ++i) {
            if (limbs_[i] != 0) return false;
        }
        return true;
    }

    // The integer part of the magnitude.
    HUSHVEC_DEVICE std::uint64_t integer_part() const {
        return (std::uint64_t{limbs_[fraction_limbs() + 1]} << kLimbBits) | limbs_[fraction_limbs()];
    }

    // floor(log2 |value|) of a value that is not zero.
    HUSHVEC_DEVICE int top_bit() const {
        std::size_t i = limbs_.size() - 1;
        while (limbs_[i] == 0) --i;
        return (static_cast<int>(i) + 1) * kLimbBits - 1 - __builtin_clz(limbs_[i]) - fraction_bits();
    }

    HUSHVEC_DEVICE void negate() { negative_ = !negative_; }

    HUSHVEC_DEVICE void drop_sign() { negative_ = false; }
    HUSHVEC_DEVICE void drop_integer_part() {
        for (std::size_t i = fraction_limbs(); i < limbs_.size(); ++i) limbs_[i] = 0;
    }

    // Multiplies by 2^bits; what passes the top is lost.
    HUSHVEC_COLD void shift_left(int bits) {
        const auto whole = static_cast<std::size_t>(bits / kLimbBits);
        const int part = bits % kLimbBits;
        for (std::size_t i = limbs_.size(); i-- > 0;) {
            const std::uint64_t high = i >= whole ? limbs_[i - whole] : 0;
            const std::uint64_t low = i > whole ? limbs_[i - whole - 1] : 0;
            limbs_[i] = static_cast<std::uint32_t>((high << kLimbBits | low) << part >> kLimbBits);
        }
    }

    HUSHVEC_COLD FixedPoint& operator+=(const FixedPoint& other) {
        add(other, other.negative_);
        return *this;
    }

    HUSHVEC_COLD FixedPoint& operator-=(const FixedPoint& other) {
        add(other, !other.negative_);
        return *this;
    }

    HUSHVEC_COLD void add_upper_power_of_two(int exponent) { *this += upper_power_of_two(fraction_limbs(), exponent); }

    HUSHVEC_COLD FixedPoint& operator/=(std::uint32_t divisor) {
        std::uint64_t remainder = 0;
        for (std::size_t i = limbs_.size(); i-- > 0;) {
            remainder = (remainder << kLimbBits) | limbs_[i];
            limbs_[i] = static_cast<std::uint32_t>(remainder / divisor);
            remainder %= divisor;
        }
        return *this;
    }

    // Column by column from the right: the columns below 2^-F only carry, so they need no room.
    HUSHVEC_COLD friend FixedPoint operator*(const FixedPoint& a, const FixedPoint& b) {
        const std::size_t size = a.limbs_.size();
        const std::size_t first_kept = a.fraction_limbs();
        FixedPoint result(first_kept);
        std::uint64_t column_sum = 0;
        for (std::size_t column = 0; column < first_kept + size; ++column) {
            std::uint64_t next_column_sum = 0;
            const std::size_t end = std::min(column + 1, size);
            for (std::size_t i = column < size ? 0 : column - size + 1; i < end; ++i) {
                const std::uint64_t product = std::uint64_t{a.limbs_[i]} * b.limbs_[column - i];
                column_sum += static_cast<std::uint32_t>(product);
                next_column_sum += product >> kLimbBits;
            }
            if (column >= first_kept) result.limbs_[column - first_kept] = static_cast<std::uint32_t>(column_sum);
            column_sum = next_column_sum + (column_sum >> kLimbBits);
        }
        result.negative_ = a.negative_ != b.negative_;
        return result;
    }

    // Long division, one bit at a time. Needs |a| < |b|: the quotient is a fraction.
    HUSHVEC_COLD friend FixedPoint operator/(const FixedPoint& a, const FixedPoint& b) {
        FixedPoint remainder = a;
        FixedPoint quotient(a.fraction_limbs());
        for (int bit = a.fraction_bits() - 1; bit >= 0; --bit) {
            remainder.shift_left(1);
            if (smaller_magnitude(remainder, b)) continue;
            remainder.subtract_magnitude(b);
            quotient.set_bit(bit);
        }
        quotient.negative_ = a.negative_ != b.negative_;
        return quotient;
    }

    // sqrt(a) for a >= 0, by the digit method on the integer a * 2^2F: two bits of it come down for each bit of the root.
    HUSHVEC_COLD friend FixedPoint sqrt(const FixedPoint& a) {
        FixedPoint root(a.fraction_limbs());
        FixedPoint remainder(a.fraction_limbs());
        FixedPoint trial(a.fraction_limbs());
        const int integer_bits = static_cast<int>(kIntegerLimbs) * kLimbBits;
        // Bits of a above and below the point: those below position 0 of the limbs are zeros.
        for (int position = a.fraction_bits() + integer_bits - 2; position >= -a.fraction_bits(); position -= 2) {
            remainder.shift_left(2);
            if (position >= 0) remainder.limbs_[0] |= a.two_bits(position);
            trial = root;
            trial.shift_left(2);
            trial.limbs_[0] |= 1;
            root.shift_left(1);
            if (smaller_magnitude(remainder, trial)) continue;
            remainder.subtract_magnitude(trial);
            root.limbs_[0] |= 1;
        }
        return root;
    }

    // |a| < |b|
    HUSHVEC_COLD friend bool smaller_magnitude(const FixedPoint& a, const FixedPoint& b) {
        for (std::size_t i = a.limbs_.size(); i-- > 0;) {
            if (a.limbs_[i] != b.limbs_[i]) return a.limbs_[i] < b.limbs_[i];
        }
        return false;
    }

private:
    HUSHVEC_DEVICE void set_bit(int position) {
        limbs_[static_cast<std::size_t>(position / kLimbBits)] |= 1U << (position % kLimbBits);
    }

    // Bits position + 1 and position; position is even, so that they share a limb.
    HUSHVEC_DEVICE std::uint32_t two_bits(int position) const {
        return limbs_[static_cast<std::size_t>(position / kLimbBits)] >> (position % kLimbBits) & 3;
    }

    // Adds |other| with the sign given.
    HUSHVEC_DEVICE void add(const FixedPoint& other, bool other_negative) {
        if (negative_ == other_negative) {
            add_magnitude(other);
        } else if (smaller_magnitude(*this, other)) {
            subtract_magnitudes(other, *this);
            negative_ = other_negative;
        } else {
            subtract_magnitude(other);
        }
    }

    HUSHVEC_DEVICE void add_magnitude(const FixedPoint& other) {
        std::uint64_t carry = 0;
        for (std::size_t i = 0; i < limbs_.size(); ++i) {
            carry += std::uint64_t{limbs_[i]} + other.limbs_[i];
            limbs_[i] = static_cast<std::uint32_t>(carry);
            carry >>= kLimbBits;
        }
    }

    // Needs |other| <= |*this|.
    HUSHVEC_DEVICE void subtract_magnitude(const FixedPoint& other) { subtract_magnitudes(*this, other); }

    // |*this| = |a| - |b| for |a| >= |b|; *this may be either.
    HUSHVEC_COLD void subtract_magnitudes(const FixedPoint& a, const FixedPoint& b) {
        std::uint32_t borrow = 0;
        for (std::size_t i = 0; i < limbs_.size(); ++i) {
            const std::uint64_t difference = std::uint64_t{a.limbs_[i]} - b.limbs_[i] - borrow;
            limbs_[i] = static_cast<std::uint32_t>(difference);
            borrow = static_cast<std::uint32_t>(difference >> kLimbBits) & 1;
        }
    }

    Limbs limbs_;
    bool negative_ = false;
};

}  // namespace hushvec
