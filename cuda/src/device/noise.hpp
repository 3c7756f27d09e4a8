// The noise of two samples that share a pair of words (docs/format.md section 2: words w and w + 8 of one block), as functors.
//
// Each takes the clipped elements and gives the values to store. The arithmetic is the CPU's, over the one-lane type.
#pragma once

#include "device/element.hpp"
#include "device/open_samples.hpp"
#include "device/thread_lane.hpp"
#include "noise/exact_round.hpp"
#include "noise/group_kernels.hpp"
#include "noise/variate.hpp"

namespace hushvec {

// Far tails of the floating-point variates, one lane at a time: noise/tail.hpp says why and from where.
template <>
HUSHVEC_COLD inline LanePair<cuda::Thread> resolve_gaussian_tail<cuda::Thread>(const KeyStream& stream, std::uint64_t pair, std::uint32_t,
                                                                               float sigma, std::uint32_t radius_word,
                                                                               std::uint32_t angle_word, LanePair<cuda::Thread> x,
                                                                               LanePair<cuda::Thread>) {
    const Block extension = cuda::extension_block(stream, pair);
    const NormalVariates z = normal_variates(radius_word, angle_word, extension[0], extension[8]);
    return {static_cast<float>(double{x.cosine} + double{sigma} * z.cosine), static_cast<float>(double{x.sine} + double{sigma} * z.sine)};
}

template <>
HUSHVEC_COLD inline float resolve_laplace_tail<cuda::Thread>(const KeyStream& stream, std::uint64_t sample, std::uint32_t, float scale,
                                                             std::uint32_t word, float x, float) {
    const Block extension = cuda::extension_block(stream, sample);
    return static_cast<float>(double{x} + double{scale} * laplace_variate(word, extension[0]));
}

}  // namespace hushvec

namespace hushvec::cuda {

template <class Value>
struct Pair {
    Value first, second;
};

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

// Exact grade: y = g round(X + s Z). X is the element times q in Value's arithmetic.
template <class Value>
struct ExactGaussian {
    static constexpr bool kNeedsLowWords = false;
    ExactScale<Thread> scale;
    float grid;
    OpenSamples open;

    HUSHVEC_INLINE Pair<float> operator()(const KeyStream& stream, SamplePosition at, const std::uint32_t* words, const std::uint32_t*,
                                          Value x_first, Value x_second) const {
        using Elements = typename ElementsOf<Value>::type;
        const std::uint32_t radius_word = words[at.word], angle_word = words[at.word + 8];
        const auto rounding = round_gaussian_pair<Thread>(scale, radius_word, angle_word, Elements{x_first}, Elements{x_second});
        LanePair<Thread> n = rounding.n;
        if (rounding.open) [[unlikely]] {
            n.cosine = settle_or_list(stream, open, GaussianWord{at.pair(), radius_word, angle_word, false}, x_first, scale.scalar);
            n.sine = settle_or_list(stream, open, GaussianWord{at.pair(), radius_word, angle_word, true}, x_second, scale.scalar);
        }
        return {n.cosine * grid, n.sine * grid};
    }
};

template <class Value>
struct ExactLaplace {
    static constexpr bool kNeedsLowWords = false;
    ExactScale<Thread> scale;
    float grid;
    OpenSamples open;

    HUSHVEC_INLINE Pair<float> operator()(const KeyStream& stream, SamplePosition at, const std::uint32_t* words, const std::uint32_t*,
                                          Value x_first, Value x_second) const {
        return {one(stream, at.sample(), words[at.word], x_first), one(stream, at.sample() + kHalfGroup, words[at.word + 8], x_second)};
    }

private:
    HUSHVEC_INLINE float one(const KeyStream& stream, std::uint64_t sample, std::uint32_t word, Value x) const {
        const auto rounding = round_laplace<Thread>(scale, word, typename ElementsOf<Value>::type{x});
        float n = rounding.n;
        if (rounding.open) [[unlikely]] n = settle_or_list(stream, open, LaplaceWord{sample, word}, x, scale.scalar);
        return n * grid;
    }
};

// Float grade, and fills (x = 0): y = x + sigma Z in Value's arithmetic.
template <class Value>
struct FloatGaussian;
template <>
struct FloatGaussian<float> {
    static constexpr bool kNeedsLowWords = false;
    float sigma;

    HUSHVEC_INLINE Pair<float> operator()(const KeyStream& stream, SamplePosition at, const std::uint32_t* words, const std::uint32_t*,
                                          float x_first, float x_second) const {
        const auto y = gaussian_plus<Thread>(stream, at, sigma, sigma, words[at.word], words[at.word + 8], {x_first, x_second});
        return {y.cosine, y.sine};
    }
};
template <>
struct FloatGaussian<double> {
    static constexpr bool kNeedsLowWords = true;   // 64 bits of each uniform
    double sigma;

    HUSHVEC_INLINE Pair<double> operator()(const KeyStream&, SamplePosition at, const std::uint32_t* words, const std::uint32_t* low,
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

    HUSHVEC_INLINE Pair<float> operator()(const KeyStream& stream, SamplePosition at, const std::uint32_t* words, const std::uint32_t*,
                                          float x_first, float x_second) const {
        return {laplace_plus<Thread>(stream, at.sample(), scale, 0.5f * scale, words[at.word], x_first),
                laplace_plus<Thread>(stream, at.sample() + kHalfGroup, scale, 0.5f * scale, words[at.word + 8], x_second)};
    }
};
template <>
struct FloatLaplace<double> {
    static constexpr bool kNeedsLowWords = true;
    double scale;

    HUSHVEC_INLINE Pair<double> operator()(const KeyStream&, SamplePosition at, const std::uint32_t* words, const std::uint32_t* low,
                                           double x_first, double x_second) const {
        return {x_first + scale * laplace_variate(words[at.word], low[at.word]),
                x_second + scale * laplace_variate(words[at.word + 8], low[at.word + 8])};
    }
};

// What a thread needs for the blocks of one call: lane `lane` of a group owns block group * 16 + lane and with it 16 samples.
template <class Noise>
class ThreadNoise {
public:
    HUSHVEC_INLINE ThreadNoise(const Noise& noise, const KeyStream& stream)
        : noise_(noise), stream_(stream), main_(stream, domain::kMain), low_(stream, domain::kLowWords) {}

    // For each word w of the block: write(w, read(w) noised). Word w is sample group * 256 + w * 16 + lane.
    template <class Read, class Write>
    HUSHVEC_INLINE void block(std::uint64_t group, unsigned lane, Read read, Write write) {
        std::uint32_t words[kBlockWords], low[kBlockWords];
        main_.blocks(group * kGroupBlocks + lane, words, 1);
        if constexpr (Noise::kNeedsLowWords) low_.blocks(group * kGroupBlocks + lane, low, 1);
        HUSHVEC_UNROLL
        for (unsigned word = 0; word < kBlockWords / 2; ++word) {
            const auto y = noise_(stream_, SamplePosition{group, word, lane}, words, low, read(word), read(word + 8));
            write(word, y.first);
            write(word + 8, y.second);
        }
    }

private:
    const Noise& noise_;
    const KeyStream& stream_;
    ChaChaLanes<Thread> main_;
    ChaChaLanes<Thread> low_;
};

}  // namespace hushvec::cuda
