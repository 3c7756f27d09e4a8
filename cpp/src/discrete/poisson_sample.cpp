// Poisson sampling: each of `count` indices is kept independently, by one 64-bit uniform each.
#include <algorithm>

#include "dispatch/dispatch.hpp"
#include "hushvec/discrete.hpp"

namespace hushvec {
namespace {

constexpr std::size_t kGroupsAtOnce = 8;   // two buffers of 8 KiB stay in the first-level cache

void keep_of_groups(const KeyStream& stream, std::uint64_t threshold, std::size_t first_group, std::size_t groups, std::size_t count,
                    std::vector<std::int64_t>& kept) {
    alignas(64) std::uint32_t high[kGroupsAtOnce * kGroupSamples];
    alignas(64) std::uint32_t low[kGroupsAtOnce * kGroupSamples];
    active_kernels().keystream(stream, domain::kPoissonHigh, first_group, groups, high);
    active_kernels().keystream(stream, domain::kPoissonLow, first_group, groups, low);
    const std::size_t begin = first_group * kGroupSamples;
    const std::size_t end = std::min(count, begin + groups * kGroupSamples);
    for (std::size_t i = begin; i < end; ++i) {
        const std::uint64_t uniform = (std::uint64_t{high[i - begin]} << 32) | low[i - begin];
        if (uniform < threshold) kept.push_back(static_cast<std::int64_t>(i));
    }
}

}  // namespace

std::vector<std::int64_t> poisson_sample(const KeyStream& stream, std::size_t count, std::uint64_t threshold) {
    const std::size_t groups = (count + kGroupSamples - 1) / kGroupSamples;
    std::vector<std::int64_t> kept;
    for (std::size_t group = 0; group < groups; group += kGroupsAtOnce) {
        keep_of_groups(stream, threshold, group, std::min(kGroupsAtOnce, groups - group), count, kept);
    }
    return kept;
}

}  // namespace hushvec
