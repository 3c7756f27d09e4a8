// Discrete noise: one word a sample says nearly always what it is.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "array/line_vector.hpp"
#include "discrete/sample_words.hpp"
#include "discrete/staircase.hpp"
#include "discrete/whole_clip.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/discrete_noise.hpp"
#include "hushvec/stack_frames.hpp"
#include "hushvec/wipe.hpp"
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
    if (std::uint64_t{count} > kMostDiscreteSamples) throw std::invalid_argument("a call must have at most 2^40 samples, got " + std::to_string(count));
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

// Samples of some groups at a time.
template <class Integer>
class Filler {
public:
    Filler(const KeyStream& stream, const Staircase& stairs) : stream_(stream), stairs_(stairs), attempts_(stream, domain::kDiscreteAttempts) {}

    // Samples [first_group * kGroupSamples, end), of at most kGroupsAtOnce groups.
    void fill(std::size_t first_group, std::size_t end, Integer* out) {
        const std::size_t begin = first_group * kGroupSamples, here = end - begin, groups = (here + kGroupSamples - 1) / kGroupSamples;
        auto& [words, low, cells, open_places] = *at_hand_;
        active_kernels().keystream(stream_, domain::kMain, first_group, groups, words);
        if (stairs_.low_bits > 0) active_kernels().keystream(stream_, domain::kDiscreteLow, first_group, groups, low);
        look_up(stairs_.guide, words, groups * kGroupSamples, cells);
        const std::size_t open = active_kernels().place_words(stairs_.cell_bits, words, groups * kGroupSamples, cells, open_places);
        if (stairs_.low_bits > 0) {
            for (std::size_t i = 0; i < here; ++i) out[i] = static_cast<Integer>(stairs_.integer_of(cells[i], low[i]));
        } else {
            for (std::size_t i = 0; i < here; ++i) out[i] = static_cast<std::int32_t>(cells[i]);
        }
        for (std::size_t i = 0; i < open; ++i) {
            const std::size_t at = open_places[i];
            if (at >= here) break;
            out[at] = narrowed<Integer>(settle_discrete(attempts_, stairs_, begin + at, words[at], low[at]));
        }
    }

private:
    static constexpr std::size_t kWords = kGroupsAtOnce * kGroupSamples;

    // Not on the stack, where they would bring the frames of the cipher below what is wiped when a call ends.
    struct Words {
        alignas(64) std::uint32_t words[kWords], low[kWords], cells[kWords], open[kWords];
        ~Words() { wipe(this, sizeof *this); }
    };

    const KeyStream& stream_;
    const Staircase& stairs_;
    LoneBlocks attempts_;
    std::unique_ptr<Words> at_hand_ = std::make_unique<Words>();
};

constexpr std::size_t kSamplesAtOnce = kGroupsAtOnce * kGroupSamples;

template <class Integer>
void fill_in_parallel(const KeyStream& stream, const Staircase& stairs, Integer* out, std::size_t count) {
    parallel_ranges((count + kGroupSamples - 1) / kGroupSamples, kGroupSamples, [&] {
        return [&, filler = Filler<Integer>(stream, stairs)](std::size_t begin, std::size_t end) mutable {
            const std::size_t last = std::min(end * kGroupSamples, count);
            for (std::size_t first = begin * kGroupSamples; first < last; first += kSamplesAtOnce) {
                filler.fill(first / kGroupSamples, std::min(first + kSamplesAtOnce, last), out + first);
            }
        };
    });
}

// Clips rows and adds noise to them, some at a time, in a copy that belongs to the thread at work (clip/staged_rows.hpp says why).
template <class Integer>
class NoisyRows {
public:
    NoisyRows(const KeyStream& stream, const Staircase& stairs, const WholeClip& clip, const Integer* x, std::size_t columns, Integer* out)
        : filler_(stream, stairs), clip_(clip), x_(x), columns_(columns), out_(out),
          rows_(std::max<std::size_t>(1, kSamplesAtOnce / columns) * columns), noise_(kSamplesAtOnce) {}

    ~NoisyRows() { wipe(noise_.data(), noise_.size() * sizeof noise_[0]); }

    void operator()(std::size_t first_row, std::size_t last_row) {
        const std::size_t end = last_row * columns_;
        std::size_t at = first_row * columns_, first_here = at, end_here = at;   // samples: the next one, and those of rows_
        for (std::size_t first = at / kGroupSamples * kGroupSamples; at < end; first += kSamplesAtOnce) {
            const std::size_t stop = std::min(first + kSamplesAtOnce, end);
            filler_.fill(first / kGroupSamples, stop, noise_.data());
            while (at < stop) {
                if (at == end_here) {
                    first_here = at;
                    end_here = std::min(at + rows_.size(), end);
                    std::copy(x_ + first_here, x_ + end_here, rows_.begin());
                    clip_.clip(rows_.data(), (end_here - first_here) / columns_);
                }
                const std::size_t next = std::min(stop, end_here);
                add(rows_.data() + (at - first_here), noise_.data() + (at - first), next - at, out_ + at);
                at = next;
            }
        }
    }

private:
    static void add(const std::int64_t* row, const std::int64_t* noise, std::size_t count, Integer* out) {
        bool beyond;
        if constexpr (sizeof(Integer) == sizeof(std::int64_t)) {
            beyond = active_kernels().add_whole(row, noise, count, out);
        } else {
            beyond = active_kernels().add_whole_to_int32(row, noise, count, out);
        }
        for (std::size_t i = 0; beyond && i < count; ++i) {
            std::int64_t sum;
            if (__builtin_add_overflow(row[i], noise[i], &sum)) sum = noise[i] < 0 ? Ends<std::int64_t>::min() : Ends<std::int64_t>::max();
            out[i] = static_cast<Integer>(std::clamp<std::int64_t>(sum, Ends<Integer>::min(), Ends<Integer>::max()));
        }
    }

    template <class T>
    using Ends = std::numeric_limits<T>;
    Filler<std::int64_t> filler_;
    WholeClip clip_;
    const Integer* x_;
    std::size_t columns_;
    Integer* out_;
    LineVector<std::int64_t> rows_, noise_;
};

}  // namespace

template <class Integer>
void fill_discrete(const KeyStream& stream, DiscreteLaw law, double scale, Integer* out, std::size_t count) {
    check_discrete(law, scale, sizeof(Integer), count);
    const WipesDeepFrames after;
    fill_in_parallel(stream, staircase_of(law, scale), out, count);
}

template void fill_discrete<std::int64_t>(const KeyStream&, DiscreteLaw, double, std::int64_t*, std::size_t);
template void fill_discrete<std::int32_t>(const KeyStream&, DiscreteLaw, double, std::int32_t*, std::size_t);

template <class Integer>
void clip_and_add_discrete(const KeyStream& stream, const Integer* x, std::size_t rows, std::size_t columns, double clip_norm, DiscreteLaw law,
                           double scale, Integer* out) {
    check_discrete(law, scale, sizeof(std::int64_t), rows * columns);
    if (!(clip_norm >= 1 && std::isfinite(clip_norm))) {
        throw std::invalid_argument("clip_norm must be finite and >= 1, got " + std::to_string(clip_norm));
    }
    if (rows * columns == 0) return;
    const WipesDeepFrames after;
    const Staircase& stairs = staircase_of(law, scale);
    const WholeClip clip(law == DiscreteLaw::gaussian, clip_norm, columns);
    parallel_ranges(rows, columns, [&] { return NoisyRows<Integer>(stream, stairs, clip, x, columns, out); });
}

template void clip_and_add_discrete(const KeyStream&, const std::int64_t*, std::size_t, std::size_t, double, DiscreteLaw, double, std::int64_t*);
template void clip_and_add_discrete(const KeyStream&, const std::int32_t*, std::size_t, std::size_t, double, DiscreteLaw, double, std::int32_t*);

}  // namespace hushvec
