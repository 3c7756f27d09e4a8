// The noise of two samples that share a pair of words (docs/format.md section 2: words w and w + 8 of one block), as functors.
//
// Each takes the clipped elements and gives the values to store. The arithmetic of the float grade is the CPU's, over the one-lane type; the
// exact grade has the CPU's results. kTails: whether one of the block's words may be in the far tail.
#pragma once

#include "device/element.hpp"
#include "device/level_one.hpp"
#include "device/open_samples.hpp"
#include "device/thread_lane.hpp"
#include "noise/exact_round.hpp"
#include "noise/group_kernels.hpp"
#include "noise/variate.hpp"

namespace hushvec::cuda {

// Far tails of the floating-point variates, one lane at a time: noise/tail.hpp says why and from where.
template <class V>
HUSHVEC_COLD LanePair<V> resolve_gaussian_tail(const CallStream& source, std::uint64_t pair, std::uint32_t, float sigma,
                                               std::uint32_t radius_word, std::uint32_t angle_word, LanePair<V> x, LanePair<V>) {
    const Block extension = extension_block(stream_of(source), pair);
    const NormalVariates z = normal_variates(radius_word, angle_word, extension[0], extension[8]);
    return {static_cast<float>(double{x.cosine} + double{sigma} * z.cosine), static_cast<float>(double{x.sine} + double{sigma} * z.sine)};
}

template <class V>
HUSHVEC_COLD float resolve_laplace_tail(const CallStream& source, std::uint64_t sample, std::uint32_t, float scale, std::uint32_t word,
                                        float x, float) {
    const Block extension = extension_block(stream_of(source), sample);
    return static_cast<float>(double{x} + double{scale} * laplace_variate(word, extension[0]));
}

// Where a word stands in the call (docs/format.md section 2).
struct SamplePosition {
    std::uint64_t group;
    std::size_t word;
    std::size_t lane;
    std::uint32_t own;   // a bit for each word whose sample the caller keeps

    HUSHVEC_INLINE bool owns(std::size_t at_word) const { return (own >> at_word) % 2 != 0; }
    HUSHVEC_INLINE std::uint64_t sample() const { return group * kGroupSamples + word * kGroupBlocks + lane; }
    HUSHVEC_INLINE std::uint64_t pair() const { return group * kGroupPairs + word * kGroupBlocks + lane; }
};

template <class Value>
struct Pair {
    Value first, second;
};

HUSHVEC_INLINE std::uint32_t smallest_of_eight(const std::uint32_t* words) {
    std::uint32_t smallest = words[0];
    HUSHVEC_UNROLL
    for (unsigned i = 1; i < 8; ++i) smallest = words[i] < smallest ? words[i] : smallest;
    return smallest;
}

template <class Value>
struct ElementsOf;
template <>
struct ElementsOf<float> {
    using type = Float32Elements<Thread>;
};
template <>
struct ElementsOf<double> {
    using type = Float64Elements<Thread>;
};

HUSHVEC_INLINE OpenPair open_pair(SamplePosition at, const std::uint32_t* words, double x_first, double x_second) {
    return {at.pair(), {words[at.word], words[at.word + 8]}, {at.owns(at.word) ? x_first : kNotOurs, at.owns(at.word + 8) ? x_second : kNotOurs}};
}

// Exact grade: y = g round(X + s Z). X is the element times q in Value's arithmetic. What level 1 cannot prove is listed, and what it
// wrote there stays until the ladder has run.
template <class Value>
struct ExactGaussian {
    static constexpr bool kNeedsLowWords = false;
    GaussianLevelOne level;
    float grid;
    OpenPairs open;

    template <bool kTails>
    HUSHVEC_INLINE Pair<float> pair(const CallStream&, SamplePosition at, const std::uint32_t* words, const std::uint32_t*, Value x_first,
                                    Value x_second) const {
        using Elements = typename ElementsOf<Value>::type;
        const std::uint32_t radius_word = words[at.word], angle_word = words[at.word + 8];
        const auto rounding = level.round(radius_word, angle_word, Elements{x_first}, Elements{x_second});
        if (rounding.open) [[unlikely]]
            open.add(open_pair(at, words, x_first, x_second));
        return {rounding.n.cosine * grid, rounding.n.sine * grid};
    }
};

template <class Value>
struct ExactLaplace {
    static constexpr bool kNeedsLowWords = false;
    LaplaceLevelOne level;
    float grid;
    OpenPairs open;

    template <bool kTails>
    HUSHVEC_INLINE Pair<float> pair(const CallStream&, SamplePosition at, const std::uint32_t* words, const std::uint32_t*, Value x_first,
                                    Value x_second) const {
        using Elements = typename ElementsOf<Value>::type;
        const auto first = level.round(words[at.word], Elements{x_first});
        const auto second = level.round(words[at.word + 8], Elements{x_second});
        if (first.open || second.open) [[unlikely]]
            open.add(open_pair(at, words, x_first, x_second));
        return {first.n * grid, second.n * grid};
    }
};

// Float grade, and fills (x = 0): y = x + sigma Z in Value's arithmetic.
template <class Value>
struct FloatGaussian;
template <>
struct FloatGaussian<float> {
    static constexpr bool kNeedsLowWords = false;
    float sigma;

    static HUSHVEC_INLINE bool reaches_tail(const std::uint32_t* words) { return smallest_of_eight(words) < kTailWord; }

    template <bool kTails>
    HUSHVEC_INLINE Pair<float> pair(const CallStream& source, SamplePosition at, const std::uint32_t* words, const std::uint32_t*,
                                    float x_first, float x_second) const {
        const std::uint32_t radius_word = words[at.word], angle_word = words[at.word + 8];
        const auto normal = normal_pair<Thread>(radius_word, angle_word);
        const LanePair<Thread> x = {x_first, x_second};
        const auto y = kTails ? gaussian_plus<Thread>(source, at.pair(), sigma, sigma, normal, radius_word, angle_word, x)
                              : gaussian_plus_body<Thread>(sigma, normal, angle_word, x);
        return {y.cosine, y.sine};
    }
};
template <>
struct FloatGaussian<double> {
    static constexpr bool kNeedsLowWords = true;   // 64 bits of each uniform
    double sigma;

    template <bool kTails>
    HUSHVEC_INLINE Pair<double> pair(const CallStream&, SamplePosition at, const std::uint32_t* words, const std::uint32_t* low,
                                     double x_first, double x_second) const {
        const NormalVariates z = normal_variates(words[at.word], words[at.word + 8], low[at.word], low[at.word + 8]);
        return {x_first + sigma * z.cosine, x_second + sigma * z.sine};
    }
};

template <class Value>
struct FloatLaplace;
template <>
struct FloatLaplace<float> {
    static constexpr bool kNeedsLowWords = false;
    float scale;

    static HUSHVEC_INLINE bool reaches_tail(const std::uint32_t* words) {
        return smallest_of_eight(words) < kTailWord || smallest_of_eight(words + 8) < kTailWord;
    }

    template <bool kTails>
    HUSHVEC_INLINE Pair<float> pair(const CallStream& source, SamplePosition at, const std::uint32_t* words, const std::uint32_t*,
                                    float x_first, float x_second) const {
        return {one<kTails>(source, at.sample(), words[at.word], x_first),
                one<kTails>(source, at.sample() + kHalfGroup, words[at.word + 8], x_second)};
    }

private:
    template <bool kTails>
    HUSHVEC_INLINE float one(const CallStream& source, std::uint64_t sample, std::uint32_t word, float x) const {
        if constexpr (kTails) {
            return laplace_plus<Thread>(source, sample, scale, 0.5f * scale, word, x);
        } else {
            return laplace_plus_body<Thread>(0.5f * scale, word, x);
        }
    }
};
template <>
struct FloatLaplace<double> {
    static constexpr bool kNeedsLowWords = true;
    double scale;

    template <bool kTails>
    HUSHVEC_INLINE Pair<double> pair(const CallStream&, SamplePosition at, const std::uint32_t* words, const std::uint32_t* low,
                                     double x_first, double x_second) const {
        return {x_first + scale * laplace_variate(words[at.word], low[at.word]),
                x_second + scale * laplace_variate(words[at.word + 8], low[at.word + 8])};
    }
};

// What a thread needs for the blocks of one call: lane `lane` of a group owns block group * 16 + lane and with it 16 samples.
template <class Noise>
class ThreadNoise {
public:
    HUSHVEC_INLINE ThreadNoise(const Noise& noise, const CallStream& source)
        : noise_(noise), source_(source), main_(stream_of(source), domain::kMain), low_(stream_of(source), domain::kLowWords) {}

    // For each word w of the block: write(w, read(w) noised). Word w is sample group * 256 + w * 16 + lane.
    // Asked for in the order 0, 8, 1, 9, ... `own`: a bit for each word whose sample the caller keeps.
    template <class Read, class Write>
    HUSHVEC_INLINE void block(std::uint64_t group, unsigned lane, Read read, Write write, std::uint32_t own = ~0u) {
        std::uint32_t words[kBlockWords], low[kBlockWords];
        main_.blocks(group * kGroupBlocks + lane, words, 1);
        if constexpr (Noise::kNeedsLowWords) low_.blocks(group * kGroupBlocks + lane, low, 1);
        if constexpr (requires { Noise::reaches_tail(words); }) {
            // Asked once a block: a branch in every pair would keep neighbours from running side by side.
            if (Noise::reaches_tail(words)) [[unlikely]]
                return pairs<true>({group, 0, lane, own}, words, low, read, write);
        }
        pairs<false>({group, 0, lane, own}, words, low, read, write);
    }

private:
    template <bool kTails, class Read, class Write>
    HUSHVEC_INLINE void pairs(SamplePosition at, const std::uint32_t* words, const std::uint32_t* low, Read& read, Write& write) {
        HUSHVEC_UNROLL
        for (unsigned word = 0; word < kBlockWords / 2; ++word) {
            const auto first = read(word);
            const auto second = read(word + 8);
            at.word = word;
            const auto y = noise_.template pair<kTails>(source_, at, words, low, first, second);
            write(word, y.first);
            write(word + 8, y.second);
        }
    }

    const Noise& noise_;
    const CallStream& source_;
    ChaChaLanes<Thread> main_;
    ChaChaLanes<Thread> low_;
};

}  // namespace hushvec::cuda
