// Exact noise of version 3, which starts from half words (docs/format.md section 16): word w of a block of the stream is a pair
// of samples, and so a block is what noise.hpp makes of two: words below 8 the samples of its lane in an even group, the others
// those in the group behind.
#pragma once

#include "device/level_one.hpp"
#include "device/level_zero.hpp"
#include "device/noise.hpp"
#include "noise/joined_words.hpp"

namespace hushvec::cuda {

inline constexpr std::uint32_t kHalfWordGroups = 2;   // of samples, that one group of blocks makes
inline constexpr std::uint32_t kPairsOfLane = kBlockWords / 2;

// Two values of one pair, and whether level 0 left one of them open.
struct HalfWordPair {
    float first, second;
    bool open;
};

// What level 1 makes of a pair that level 0 left open, in grid units, and whether it leaves one of them open.
struct RefinedPair {
    JoinedPair words;
    float first, second;
    bool open;
};

template <class Value>
struct HalfGaussian {
    GaussianLevelZero level;
    GaussianLevelOne behind;
    float grid;

    HalfGaussian(float scale_in_grids, float of_grid) : level(scale_in_grids), behind(scale_in_grids), grid(of_grid) {}

    HUSHVEC_INLINE HalfWordPair pair(std::uint32_t word, Value x_first, Value x_second) const {
        using Elements = typename ElementsOf<Value>::type;
        const auto rounding = level.round(word, Elements{x_first}, Elements{x_second});
        return {rounding.n.cosine * grid, rounding.n.sine * grid, rounding.open};
    }

    HUSHVEC_INLINE RefinedPair refined(std::uint32_t word, std::uint32_t more, Value x_first, Value x_second) const {
        using Elements = typename ElementsOf<Value>::type;
        const JoinedPair words = joined_gaussian(word, more);
        const auto rounding = behind.round(words.first, words.second, Elements{x_first}, Elements{x_second});
        return {words, rounding.n.cosine, rounding.n.sine, rounding.open};
    }
};

template <class Value>
struct HalfLaplace {
    LaplaceLevelZero level;
    LaplaceLevelOne behind;
    float grid;

    HalfLaplace(float scale_in_grids, float of_grid) : level(scale_in_grids), behind(scale_in_grids), grid(of_grid) {}

    HUSHVEC_INLINE HalfWordPair pair(std::uint32_t word, Value x_first, Value x_second) const {
        using Elements = typename ElementsOf<Value>::type;
        const auto first = level.round(word, true, Elements{x_first});
        const auto second = level.round(word, false, Elements{x_second});
        return {first.n * grid, second.n * grid, first.open || second.open};
    }

    HUSHVEC_INLINE RefinedPair refined(std::uint32_t word, std::uint32_t more, Value x_first, Value x_second) const {
        using Elements = typename ElementsOf<Value>::type;
        const JoinedPair words = joined_laplaces(word, more);
        const auto first = behind.round(words.first, Elements{x_first}), second = behind.round(words.second, Elements{x_second});
        return {words, first.n, second.n, first.open || second.open};
    }
};

// Word `number` of domain 29, in the place that section 2 gives to sample `number`.
HUSHVEC_DEVICE inline std::uint32_t refinement_word(const KeyStream& stream, std::uint64_t number) {
    std::uint32_t words[kBlockWords];
    ChaChaLanes<Thread> chacha(stream, domain::kRefinement);
    chacha.blocks(ChaChaLanes<Thread>::block_of(number), words, 1);
    // Chosen by halves: an index into registers would put them into local memory.
    const auto index = static_cast<unsigned>(ChaChaLanes<Thread>::word_of(number));
    HUSHVEC_UNROLL
    for (unsigned half = kBlockWords / 2; half > 0; half /= 2) {
        HUSHVEC_UNROLL
        for (unsigned i = 0; i < kBlockWords / 2; ++i) {
            if (i < half && (index & half) != 0) words[i] = words[i + half];
        }
    }
    return words[0];
}

// As ThreadNoise: lane `lane` owns block number * 16 + lane, and with it 16 samples in each of the groups 2 number and 2 number + 1.
template <class Noise>
class ThreadHalfNoise {
public:
    HUSHVEC_INLINE ThreadHalfNoise(const Noise& noise, const CallStream& source) : noise_(noise), main_(stream_of(source), domain::kMain) {}

    // samples(which of the two groups, go on) has to call go on(read, write, list), once at most. Then for each of the group's
    // words, in order: write(w, read(w) noised), and the same with w + 8, as for ThreadNoise. list(w, word, read(w), read(w + 8))
    // where level 0 leaves the pair open.
    template <class Samples>
    HUSHVEC_INLINE void block(std::uint64_t number, unsigned lane, Samples samples) {
        std::uint32_t words[kBlockWords];
        main_.blocks(number * kGroupBlocks + lane, words, 1);
        HUSHVEC_UNROLL
        for (std::uint32_t group = 0; group < kHalfWordGroups; ++group) {
            samples(group, [&](auto read, auto write, auto list) HUSHVEC_INLINE_LAMBDA {
                pairs(words + group * kPairsOfLane, read, write, list);
            });
        }
    }

private:
    template <class Read, class Write, class List>
    HUSHVEC_INLINE void pairs(const std::uint32_t* words, Read& read, Write& write, List& list) const {
        HUSHVEC_UNROLL
        for (unsigned w = 0; w < kPairsOfLane; ++w) {
            const auto first = read(w);
            const auto second = read(w + kPairsOfLane);
            const HalfWordPair y = noise_.pair(words[w], first, second);
            write(w, y.first);
            write(w + kPairsOfLane, y.second);
            if (y.open) [[unlikely]]
                list(w, words[w], first, second);
        }
    }

    const Noise& noise_;
    ChaChaLanes<Thread> main_;
};

}  // namespace hushvec::cuda
