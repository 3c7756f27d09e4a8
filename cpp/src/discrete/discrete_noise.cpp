// Discrete noise: one word a sample says nearly always what it is.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

#include "discrete/sample_words.hpp"
#include "discrete/staircase.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/discrete_noise.hpp"
#include "parallel/threads.hpp"

namespace hushvec {

void check_discrete(DiscreteLaw law, double scale, std::size_t item_bytes, std::size_t count) {
    const double largest = item_bytes == sizeof(std::int32_t) ? largest_int32_scale(law) : kLargestDiscreteScale;
    if (!(scale >= kSmallestDiscreteScale && scale <= largest)) {
        char text[96];
        std::snprintf(text, sizeof text, "%s must be in [2^-6, 2^%d]%s, got %.17g", law == DiscreteLaw::gaussian ? "sigma" : "scale",
                      std::ilogb(largest), largest < kLargestDiscreteScale ? " for int32" : "", scale);
        throw std::invalid_argument(text);
    }
    if (count > kMostDiscreteSamples) throw std::invalid_argument("a call must have at most 2^40 samples, got " + std::to_string(count));
}

const Staircase& staircase_of(DiscreteLaw law, double scale) {
    struct Kept {
        DiscreteLaw law;
        double scale;
        Staircase stairs;
    };
    static thread_local std::optional<Kept> kept;
    if (!kept || kept->law != law || kept->scale != scale) {
        kept.reset();
        kept.emplace(Kept{law, scale, Staircase(law, scale)});
    }
    return kept->stairs;
}

namespace {

template <class Integer>
Integer narrowed(std::int64_t k) {
    constexpr std::int64_t kMost = std::numeric_limits<Integer>::max();
    return static_cast<Integer>(std::clamp(k, -kMost, kMost));
}

// Fills what a thread is given, some groups at a time.
template <class Integer>
class Filler {
public:
    Filler(const KeyStream& stream, const Staircase& stairs, Integer* out, std::size_t count)
        : stream_(stream), stairs_(stairs), out_(out), count_(count), attempts_(stream, domain::kDiscreteAttempts) {}

    void operator()(std::size_t begin, std::size_t end) {
        for (std::size_t group = begin; group < end; group += kGroupsAtOnce) fill(group, std::min(kGroupsAtOnce, end - group));
    }

private:
    void fill(std::size_t first_group, std::size_t groups) {
        active_kernels().keystream(stream_, domain::kMain, first_group, groups, words_);
        if (stairs_.low_bits > 0) active_kernels().keystream(stream_, domain::kDiscreteLow, first_group, groups, low_);
        const std::size_t begin = first_group * kGroupSamples;
        const std::size_t here = std::min(count_ - begin, groups * kGroupSamples);
        look_up(stairs_.guide, words_, groups * kGroupSamples, cells_);
        const std::size_t open = active_kernels().place_words(stairs_.cell_bits, words_, groups * kGroupSamples, cells_, open_);
        if (stairs_.low_bits > 0) {
            for (std::size_t i = 0; i < here; ++i) out_[begin + i] = static_cast<Integer>(stairs_.integer_of(cells_[i], low_[i]));
        } else {
            for (std::size_t i = 0; i < here; ++i) out_[begin + i] = static_cast<std::int32_t>(cells_[i]);
        }
        for (std::size_t i = 0; i < open; ++i) {
            const std::size_t at = open_[i];
            if (at >= here) break;
            out_[begin + at] = narrowed<Integer>(settle_discrete(attempts_, stairs_, begin + at, words_[at], low_[at]));
        }
    }

    static constexpr std::size_t kWords = kGroupsAtOnce * kGroupSamples;
    const KeyStream& stream_;
    const Staircase& stairs_;
    Integer* out_;
    std::size_t count_;
    LoneBlocks attempts_;
    alignas(64) std::uint32_t words_[kWords];   // on the stack, which is wiped
    alignas(64) std::uint32_t low_[kWords] = {};
    alignas(64) std::uint32_t cells_[kWords];
    std::uint32_t open_[kWords];
};

template <class Integer>
void fill_in_parallel(const KeyStream& stream, const Staircase& stairs, Integer* out, std::size_t count) {
    parallel_ranges((count + kGroupSamples - 1) / kGroupSamples, kGroupSamples, [&] { return Filler<Integer>(stream, stairs, out, count); });
}

}  // namespace

template <class Integer>
void fill_discrete(const KeyStream& stream, DiscreteLaw law, double scale, Integer* out, std::size_t count) {
    check_discrete(law, scale, sizeof(Integer), count);
    fill_in_parallel(stream, staircase_of(law, scale), out, count);
}

template void fill_discrete<std::int64_t>(const KeyStream&, DiscreteLaw, double, std::int64_t*, std::size_t);
template void fill_discrete<std::int32_t>(const KeyStream&, DiscreteLaw, double, std::int32_t*, std::size_t);

}  // namespace hushvec
