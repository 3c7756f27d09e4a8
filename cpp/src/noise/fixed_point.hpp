// Arbitrary-precision fixed-point numbers for level 4 of the exact ladder: clear rather than fast.
//
// A number is a sign and 32-bit limbs, least significant first: F = 32 * fraction_limbs bits behind the point and 64 before it.
// An "ulp" is 2^-F. Both operands of an operation have the same F, and every value stays below 2^62 in magnitude;
// the callers' ranges (|X| < 2^25, noise below 2^20) leave room. Sums, differences and left shifts are exact;
// products, quotients and roots are truncated towards zero, so each is off by less than one ulp.
//
// Limbs hold a number: a std::vector of any length, or a std::array where a GPU thread does the work.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "lanes/inline.hpp"

namespace hushvec {

template <class Limbs>
struct LimbStorage;

template <>
struct LimbStorage<std::vector<std::uint32_t>> {
    using Double = std::vector<std::uint32_t>;
    static Double zeros(std::size_t count) { return Double(count); }
};

template <std::size_t kCount>
struct LimbStorage<std::array<std::uint32_t, kCount>> {
    using Double = std::array<std::uint32_t, 2 * kCount>;
    HUSHVEC_DEVICE static std::array<std::uint32_t, kCount> zeros(std::size_t) { return {}; }
};

template <class Limbs>
class BasicFixedPoint {
    using FixedPoint = BasicFixedPoint;
    using Storage = LimbStorage<Limbs>;

  public:
    static constexpr std::size_t kIntegerLimbs = 2;
    static constexpr int kLimbBits = 32;

    // An array holds kIntegerLimbs more than fraction_limbs, no more and no less.
    HUSHVEC_DEVICE explicit BasicFixedPoint(std::size_t fraction_limbs, std::uint32_t integer = 0)
        : fraction_limbs_(fraction_limbs), limbs_(Storage::zeros(fraction_limbs + kIntegerLimbs)) {
        limbs_[fraction_limbs_] = integer;
    }

    // 0.first rest[0] rest[1] ... in base 2^32. At most fraction_limbs words.
    HUSHVEC_DEVICE static FixedPoint from_fraction(std::size_t fraction_limbs, std::uint32_t first, std::span<const std::uint32_t> rest) {
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

    // A double, truncated towards zero. Needs |value| < 2^62.
    HUSHVEC_COLD static FixedPoint truncated(std::size_t fraction_limbs, double value) {
        constexpr int kSignificandBits = 53;
        FixedPoint result(fraction_limbs);
        result.negative_ = value < 0;
        int exponent = 0;
        const double significand = std::frexp(std::abs(value), &exponent);
        auto integer = static_cast<std::uint64_t>(std::ldexp(significand, kSignificandBits));
        int position = exponent - kSignificandBits + result.fraction_bits();
        if (position < 0) {
            integer = position > -kSignificandBits ? integer >> -position : 0;
            position = 0;
        }
        result.limbs_[0] = static_cast<std::uint32_t>(integer);
        result.limbs_[1] = static_cast<std::uint32_t>(integer >> kLimbBits);
        return result.shifted_left(position);
    }

    HUSHVEC_DEVICE std::size_t fraction_limbs() const { return fraction_limbs_; }
    HUSHVEC_DEVICE int fraction_bits() const { return static_cast<int>(fraction_limbs_) * kLimbBits; }
    HUSHVEC_DEVICE bool negative() const { return negative_; }
    HUSHVEC_DEVICE bool is_zero() const {
        return std::all_of(limbs_.begin(), limbs_.end(), [](std::uint32_t limb) { return limb == 0; });
    }

    // The integer part of the magnitude.
    HUSHVEC_DEVICE std::uint64_t integer_part() const {
        return (std::uint64_t{limbs_[fraction_limbs_ + 1]} << kLimbBits) | limbs_[fraction_limbs_];
    }

    HUSHVEC_DEVICE FixedPoint magnitude() const {
        FixedPoint result = *this;
        result.negative_ = false;
        return result;
    }

    HUSHVEC_DEVICE FixedPoint fraction_of_magnitude() const {
        FixedPoint result = magnitude();
        std::fill(result.limbs_.begin() + static_cast<std::ptrdiff_t>(fraction_limbs_), result.limbs_.end(), 0U);
        return result;
    }

    // floor(log2 |value|) of a value that is not zero.
    HUSHVEC_DEVICE int top_bit() const {
        std::size_t i = limbs_.size() - 1;
        while (limbs_[i] == 0) --i;
        return static_cast<int>(i) * kLimbBits + static_cast<int>(std::bit_width(limbs_[i])) - 1 - fraction_bits();
    }

    HUSHVEC_DEVICE FixedPoint operator-() const {
        FixedPoint result = *this;
        result.negative_ = !negative_;
        return result;
    }

    HUSHVEC_COLD FixedPoint shifted_left(int bits) const {
        FixedPoint result(fraction_limbs_);
        result.negative_ = negative_;
        const auto whole = static_cast<std::size_t>(bits / kLimbBits);
        const int part = bits % kLimbBits;
        for (std::size_t i = whole; i < limbs_.size(); ++i) {
            const std::uint64_t low = i > whole ? limbs_[i - whole - 1] : 0;
            const std::uint64_t joined = (std::uint64_t{limbs_[i - whole]} << kLimbBits) | low;
            result.limbs_[i] = static_cast<std::uint32_t>(joined << part >> kLimbBits);
        }
        return result;
    }

    HUSHVEC_COLD friend FixedPoint operator+(const FixedPoint& a, const FixedPoint& b) {
        if (a.negative_ == b.negative_) return sum_of_magnitudes(a, b);
        return compare_magnitudes(a, b) < 0 ? difference_of_magnitudes(b, a) : difference_of_magnitudes(a, b);
    }

    HUSHVEC_DEVICE friend FixedPoint operator-(const FixedPoint& a, const FixedPoint& b) { return a + -b; }

    HUSHVEC_COLD friend FixedPoint operator*(const FixedPoint& a, const FixedPoint& b) {
        const std::size_t size = a.limbs_.size();
        typename Storage::Double product = LimbStorage<typename Storage::Double>::zeros(2 * size);
        for (std::size_t i = 0; i < size; ++i) {
            std::uint64_t carry = 0;
            for (std::size_t j = 0; j < size; ++j) {
                carry += std::uint64_t{a.limbs_[i]} * b.limbs_[j] + product[i + j];
                product[i + j] = static_cast<std::uint32_t>(carry);
                carry >>= kLimbBits;
            }
            product[i + size] = static_cast<std::uint32_t>(carry);
        }
        FixedPoint result(a.fraction_limbs_);
        std::copy_n(product.begin() + static_cast<std::ptrdiff_t>(a.fraction_limbs_), size, result.limbs_.begin());
        result.negative_ = a.negative_ != b.negative_;
        return result;
    }

    HUSHVEC_COLD friend FixedPoint operator/(const FixedPoint& a, std::uint32_t divisor) {
        FixedPoint result(a.fraction_limbs_);
        std::uint64_t remainder = 0;
        for (std::size_t i = a.limbs_.size(); i-- > 0;) {
            remainder = (remainder << kLimbBits) | a.limbs_[i];
            result.limbs_[i] = static_cast<std::uint32_t>(remainder / divisor);
            remainder %= divisor;
        }
        result.negative_ = a.negative_;
        return result;
    }

    // Long division, one bit at a time. Needs |a| < |b|: the quotient is a fraction.
    HUSHVEC_COLD friend FixedPoint operator/(const FixedPoint& a, const FixedPoint& b) {
        const FixedPoint divisor = b.magnitude();
        FixedPoint remainder = a.magnitude();
        FixedPoint quotient(a.fraction_limbs_);
        for (int bit = a.fraction_bits() - 1; bit >= 0; --bit) {
            remainder = remainder.shifted_left(1);
            if (compare_magnitudes(remainder, divisor) < 0) continue;
            remainder = difference_of_magnitudes(remainder, divisor);
            quotient.set_bit(bit);
        }
        quotient.negative_ = a.negative_ != b.negative_;
        return quotient;
    }

    // sqrt(a) for a >= 0, by the digit method on the integer a * 2^2F: two bits of it come down for each bit of the root.
    HUSHVEC_COLD friend FixedPoint sqrt(const FixedPoint& a) {
        FixedPoint root(a.fraction_limbs_);
        FixedPoint remainder(a.fraction_limbs_);
        const int integer_bits = static_cast<int>(kIntegerLimbs) * kLimbBits;
        // Bits of a above and below the point: those below position 0 of the limbs are zeros.
        for (int position = a.fraction_bits() + integer_bits - 2; position >= -a.fraction_bits(); position -= 2) {
            remainder = remainder.shifted_left(2);
            if (position >= 0) remainder.limbs_[0] |= a.two_bits(position);
            FixedPoint trial = root.shifted_left(2);
            trial.limbs_[0] |= 1;
            root = root.shifted_left(1);
            if (compare_magnitudes(remainder, trial) < 0) continue;
            remainder = difference_of_magnitudes(remainder, trial);
            root.limbs_[0] |= 1;
        }
        return root;
    }

    HUSHVEC_COLD friend std::strong_ordering compare_magnitudes(const FixedPoint& a, const FixedPoint& b) {
        return std::lexicographical_compare_three_way(a.limbs_.rbegin(), a.limbs_.rend(), b.limbs_.rbegin(),
                                                      b.limbs_.rend());
    }

  private:
    HUSHVEC_DEVICE void set_bit(int position) {
        limbs_[static_cast<std::size_t>(position / kLimbBits)] |= 1U << (position % kLimbBits);
    }

    // Bits position + 1 and position; position is even, so that they share a limb.
    HUSHVEC_DEVICE std::uint32_t two_bits(int position) const {
        return limbs_[static_cast<std::size_t>(position / kLimbBits)] >> (position % kLimbBits) & 3;
    }

    // |a| + |b|, with the sign of a.
    HUSHVEC_COLD static FixedPoint sum_of_magnitudes(const FixedPoint& a, const FixedPoint& b) {
        FixedPoint result(a.fraction_limbs_);
        std::uint64_t carry = 0;
        for (std::size_t i = 0; i < a.limbs_.size(); ++i) {
            carry += std::uint64_t{a.limbs_[i]} + b.limbs_[i];
            result.limbs_[i] = static_cast<std::uint32_t>(carry);
            carry >>= kLimbBits;
        }
        result.negative_ = a.negative_;
        return result;
    }

    // |a| - |b| for |a| >= |b|, with the sign of a.
    HUSHVEC_COLD static FixedPoint difference_of_magnitudes(const FixedPoint& a, const FixedPoint& b) {
        FixedPoint result(a.fraction_limbs_);
        std::uint32_t borrow = 0;
        for (std::size_t i = 0; i < a.limbs_.size(); ++i) {
            const std::uint64_t difference = std::uint64_t{a.limbs_[i]} - b.limbs_[i] - borrow;
            result.limbs_[i] = static_cast<std::uint32_t>(difference);
            borrow = static_cast<std::uint32_t>(difference >> kLimbBits) & 1;
        }
        result.negative_ = a.negative_;
        return result;
    }

    std::size_t fraction_limbs_;
    Limbs limbs_;
    bool negative_ = false;
};

using FixedPoint = BasicFixedPoint<std::vector<std::uint32_t>>;

}  // namespace hushvec
