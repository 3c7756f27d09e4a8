// The domains of the key stream that discrete answers read (docs/format.md section 9). Domain 24, further bits of Gumbel noise, is read
// where undecided rows are settled, outside the core.
#pragma once

#include <cstdint>

namespace hushvec::domain {

inline constexpr std::uint64_t kResponseHigh = 20;   // randomized response: bits 1 to 32 of every uniform
inline constexpr std::uint64_t kResponseLow = 21;    // bits 33 to 64
inline constexpr std::uint64_t kGumbelHigh = 22;     // Gumbel noise: the same
inline constexpr std::uint64_t kGumbelLow = 23;

}  // namespace hushvec::domain
