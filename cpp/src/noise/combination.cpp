#include "noise/combination.hpp"

#include <vector>

#include "noise/combination_ladder.hpp"
#include "noise/ladder_multiprecision.hpp"

namespace hushvec {
namespace {

// One term, with the bits of its uniforms that were read so far.
struct Term {
    Term(const ScaledStream& of, std::uint64_t pair, bool sine)
        : stream(*of.stream), s(of.s), word(word_of_pair(pair, lane_block(stream, domain::kMain, lane_of_pair(pair)), sine)) {}

    void extend(int step) {
        if (step == 1) radius_words = {word.radius_word}, angle_words = {word.angle_word};
        const Block block = stream_block(stream, domain::kFirstExtension + static_cast<std::uint64_t>(step - 1), word.pair);
        radius_words.insert(radius_words.end(), block.begin(), block.begin() + 8);
        angle_words.insert(angle_words.end(), block.begin() + 8, block.end());
    }

    const KeyStream& stream;
    double s;
    GaussianWord word;
    std::vector<std::uint32_t> radius_words, angle_words;
};

ScaledBracket sum_in_float64(const std::vector<Term>& terms, int level) {
    Float64Combination sum;
    for (const Term& term : terms) {
        sum.add(level == 2 ? known_bits(term.word)
                           : known_bits(term.word, stream_block(term.stream, domain::kFirstExtension, term.word.pair)),
                term.s);
    }
    return sum.bracket();
}

}  // namespace

std::int32_t settle_combination(std::span<const ScaledStream> streams, std::uint64_t pair, bool sine, double x, int first_level) {
    std::vector<Term> terms;
    for (const ScaledStream& one : streams) terms.emplace_back(one, pair, sine);
    for (int level = first_level; level <= 3; ++level) {
        if (const auto n = decide(sum_in_float64(terms, level), x)) return *n;
    }
    for (int step = 1;; ++step) {
        for (Term& term : terms) term.extend(step);
        multiprecision::Combination<UnlimitedNumber> sum(terms.front().radius_words.size() + multiprecision::kGuardLimbs);
        for (const Term& term : terms) sum.add(term.radius_words, term.angle_words, term.word.sine, term.s);
        const auto& bracket = sum.plus(x);
        if (const auto n = multiprecision::decide(bracket)) return *n;
        if (step == kExtensionSteps) return multiprecision::nearest(bracket.centre);
    }
}

}  // namespace hushvec
