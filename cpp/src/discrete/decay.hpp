// w(k) = exp(-k^2 / (2 scale^2)) or exp(-|k| / scale), bracketed in float64 and in fixed point.
#pragma once

#include <cstdint>

#include "hushvec/discrete_noise.hpp"
#include "noise/ladder_multiprecision.hpp"

namespace hushvec {

// The real value is in [low, high].
struct RealBracket {
    double low, high;
};

// The real value is within 2^error_exponent of `value`.
struct FixedBracket {
    UnlimitedNumber value;
    int error_exponent;
};

// |k| < 2^52.
class Decay {
public:
    Decay(DiscreteLaw law, double scale) : law_(law), scale_(scale) {}

    // factor w(k), factor < 2^900.
    RealBracket times(double factor, std::int64_t k) const;

    // factor 2^shift w(k) <= 2^32, shift >= 0, to 2^-(bits + 40) or better.
    FixedBracket times(std::uint32_t factor, int shift, std::int64_t k, int bits) const;

    // floor(factor w(k)), exactly.
    std::uint32_t floor_of(std::uint32_t factor, std::int64_t k) const;

private:
    double exponent(std::int64_t k) const;

    DiscreteLaw law_;
    double scale_;
};

}  // namespace hushvec
