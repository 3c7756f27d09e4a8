// Poisson sampling: each of `count` indices is kept independently, by one 64-bit uniform each.
#include <algorithm>

#include "discrete/sample_words.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/discrete.hpp"
#include "hushvec/stack_frames.hpp"

namespace hushvec {
namespace {

// The upper half of a uniform decides but for 1 in 2^32 of them: the lower halves are drawn where one has the threshold's.
void keep_of_groups(const KeyStream& stream, std::uint64_t threshold, std::size_t first_group, std::size_t groups, std::size_t count,
                    std::vector<std::int64_t>& kept) {
    alignas(64) std::uint32_t high[kGroupsAtOnce * kGroupSamples];
    alignas(64) std::uint32_t low[kGroupsAtOnce * kGroupSamples];
    const std::size_t begin = first_group * kGroupSamples;
    const std::size_t size = std::min(count - begin, groups * kGroupSamples);
    const auto limit = static_cast<std::uint32_t>(threshold >> 32), low_limit = static_cast<std::uint32_t>(threshold);
    active_kernels().keystream(stream, domain::kPoissonHigh, first_group, groups, high);
    if (std::find(high, high + size, limit) != high + size) active_kernels().keystream(stream, domain::kPoissonLow, first_group, groups, low);
    for (std::size_t i = 0; i < size; ++i) {
        if (high[i] < limit || (high[i] == limit && low[i] < low_limit)) kept.push_back(static_cast<std::int64_t>(begin + i));
    }
}

}  // namespace

std::vector<std::int64_t> poisson_sample(const KeyStream& stream, std::size_t count, std::uint64_t threshold) {
    const std::size_t groups = (count + kGroupSamples - 1) / kGroupSamples;
    const WipesDeepFrames after;
    std::vector<std::int64_t> kept;
    for (std::size_t group = 0; group < groups; group += kGroupsAtOnce) {
        keep_of_groups(stream, threshold, group, std::min(kGroupsAtOnce, groups - group), count, kept);
    }
    return kept;
}

}  // namespace hushvec
