#include "discrete/whole_clip.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "discrete/whole_rows.hpp"
#include "dispatch/dispatch.hpp"

namespace hushvec {

void Natural::add(Uint128 value) {
    Uint128 carry = 0;
    for (std::size_t i = 0; i < limbs_.size(); ++i, value >>= 64) {
        carry += Uint128{limbs_[i]} + static_cast<std::uint64_t>(value);
        limbs_[i] = static_cast<std::uint64_t>(carry);
        carry >>= 64;
    }
}

Natural Natural::times(std::uint64_t factor) const {
    Natural product;
    Uint128 carry = 0;
    for (std::size_t i = 0; i < limbs_.size(); ++i, carry >>= 64) {
        carry += Uint128{limbs_[i]} * factor;
        product.limbs_[i] = static_cast<std::uint64_t>(carry);
    }
    return product;
}

Natural Natural::times_power_of_two(int exponent) const {
    Natural product = *this;
    for (; exponent > 0; exponent -= 32) product = product.times(std::uint64_t{1} << std::min(exponent, 32));
    return product;
}

bool Natural::operator<=(const Natural& other) const {
    return !std::lexicographical_compare(other.limbs_.rbegin(), other.limbs_.rend(), limbs_.rbegin(), limbs_.rend());
}

double Natural::to_double() const {
    return static_cast<double>(limbs_[2]) * 0x1p128 + static_cast<double>(limbs_[1]) * 0x1p64 + static_cast<double>(limbs_[0]);
}

WholeClip::WholeClip(bool squares, double clip_norm, std::size_t columns)
    : squares_(squares), clip_norm_(std::min(clip_norm, 0x1p104)), columns_(columns) {   // no row is longer than 2^103
    const int powers = squares ? 2 : 1, exponent = std::ilogb(clip_norm_) - 52;
    const Uint128 digits = static_cast<std::uint64_t>(std::ldexp(clip_norm_, -exponent));
    const Uint128 power = squares ? digits * digits : digits;
    shift_ = std::max(-exponent, 0) * powers;
    bound_ = Natural(power).times_power_of_two(std::max(exponent, 0) * powers);
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
    Uint128 floor = kMost;
    if (exponent <= 11) floor = exponent <= 0 ? power >> shift_ : power << (exponent * powers);
    limit_ = static_cast<std::uint64_t>(std::min<Uint128>(floor, kMost));
}

void WholeClip::clip(std::int64_t* rows, std::size_t count) {
    if (columns_ == 1) {   // N = |x|
        constexpr double kMost = 0x1p63;
        const std::int64_t least = clip_norm_ >= kMost ? std::numeric_limits<std::int64_t>::min() : -static_cast<std::int64_t>(clip_norm_);
        const std::int64_t most = clip_norm_ >= kMost ? std::numeric_limits<std::int64_t>::max() : -least;
        for (std::size_t i = 0; i < count; ++i) rows[i] = std::clamp(rows[i], least, most);
        return;
    }
    for (std::size_t row = 0; row < count; ++row) clip_row(rows + row * columns_);
}

void WholeClip::clip_row(std::int64_t* row) {
    const WholeSizes sizes = active_kernels().whole_sizes(row, columns_, squares_);
    const auto bits = static_cast<int>(std::bit_width(sizes.bits));
    const bool fits = bits * (squares_ ? 2 : 1) + static_cast<int>(std::bit_width(columns_)) <= 64;
    if (fits && sizes.total <= limit_) return;
    Natural total(fits ? sizes.total : 0);
    if (!fits) {
        for (std::size_t i = 0; i < columns_; ++i) total.add(Uint128{size_of(row[i])} * (squares_ ? size_of(row[i]) : 1));
    }
    const Natural shifted = total.times_power_of_two(shift_);
    if (!fits && shifted <= bound_) return;
    const double q = clip_norm_ / (squares_ ? std::sqrt(total.to_double()) : total.to_double());
    for (std::size_t first = 0; first < columns_; first += kPiece) {
        const std::size_t count = std::min(kPiece, columns_ - first);
        std::int64_t* const piece = row + first;
        bool undecided = true;
        if (bits <= kMostScaledBits) {
            undecided = active_kernels().scale_whole(piece, count, q, scaled_);
        } else {
            std::fill_n(scaled_, count, kUndecided);
        }
        for (std::size_t i = 0; undecided && i < count; ++i) {
            if (scaled_[i] == kUndecided) scaled_[i] = exactly(piece[i], q, shifted);
        }
        std::copy_n(scaled_, count, piece);
    }
}

// The largest m with m^p N^p <= |x|^p C^p, from an interval around |x| q.
std::int64_t WholeClip::exactly(std::int64_t element, double q, const Natural& total) const {
    const std::uint64_t size = size_of(element);
    const double quotient = static_cast<double>(size) * q;
    auto low = static_cast<std::uint64_t>(quotient * (1 - kTruncationRoom));
    auto high = std::min(static_cast<std::uint64_t>(quotient * (1 + kTruncationRoom)), size);
    const Natural reach = power_of(bound_, size);
    while (low < high) {
        const std::uint64_t middle = low + (high - low + 1) / 2;
        if (power_of(total, middle) <= reach) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return static_cast<std::int64_t>((low ^ sign_of(element)) - sign_of(element));
}

}  // namespace hushvec
