#include "noise/combination.hpp"

#include <cmath>
#include <optional>
#include <vector>

#include "noise/ladder_brackets.hpp"
#include "noise/ladder_float64.hpp"
#include "noise/ladder_multiprecision.hpp"

namespace hushvec {
namespace {

using Number = UnlimitedNumber;
using Bracket = multiprecision::Bracket<Number>;

GaussianWord first_word(const KeyStream& stream, std::uint64_t pair, bool sine) {
    const std::uint64_t group = pair / kGroupPairs, place = pair % kGroupPairs;
    const Block block = lane_block(stream, domain::kMain, group * kGroupBlocks + place % kGroupBlocks);
    const std::size_t word = place / kGroupBlocks;
    return {pair, block[word], block[word + kBlockWords / 2], sine};
}

// One term, with the bits of its uniforms that were read so far.
struct Term {
    Term(const ScaledStream& of, std::uint64_t pair, bool sine)
        : stream(*of.stream), s(std::fabs(of.s)), negative(of.s < 0), word(first_word(*of.stream, pair, sine)) {}

    void extend(int step) {
        if (step == 1) radius_words = {word.radius_word}, angle_words = {word.angle_word};
        const Block block = stream_block(stream, domain::kFirstExtension + static_cast<std::uint64_t>(step - 1), word.pair);
        radius_words.insert(radius_words.end(), block.begin(), block.begin() + 8);
        angle_words.insert(angle_words.end(), block.begin() + 8, block.end());
    }

    const KeyStream& stream;
    double s;
    bool negative;
    GaussianWord word;
    std::vector<std::uint32_t> radius_words, angle_words;
};

// Every addition of two values rounds by at most 2^-53 of the magnitudes added so far; the half widths' own by kHalfWidthRounding.
ScaledBracket sum_in_float64(const std::vector<Term>& terms, int level) {
    ScaledBracket sum = {0.0, 0.0};
    double magnitudes = 0.0;
    for (const Term& term : terms) {
        const GaussianPrefix known = level == 2 ? known_bits(term.word)
                                                : known_bits(term.word, stream_block(term.stream, domain::kFirstExtension, term.word.pair));
        const ScaledBracket bracket = scaled_bracket(known, term.s);
        sum.value += term.negative ? -bracket.value : bracket.value;
        magnitudes += std::fabs(bracket.value);
        sum.half_width += bracket.half_width;
    }
    sum.half_width = (sum.half_width + static_cast<double>(terms.size()) * 0x1p-52 * magnitudes) * kHalfWidthRounding;
    return sum;
}

// The brackets are placed at 0 and X is added at the end: its truncation is within what `place` allows for it in each.
Bracket sum_of_brackets(const std::vector<Term>& terms, double x) {
    std::optional<Bracket> sum;
    for (const Term& term : terms) {
        Bracket bracket = multiprecision::gaussian_bracket<Number>(term.radius_words, term.angle_words, term.word.sine, 0.0, term.s);
        if (term.negative) bracket.centre.negate();
        if (!sum) {
            sum = bracket;
            continue;
        }
        sum->centre += bracket.centre;
        sum->half_width += bracket.half_width;
        sum->bounded = sum->bounded && bracket.bounded;
    }
    sum->centre += Number::truncated(sum->centre.fraction_limbs(), x);
    return *sum;
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
        const Bracket bracket = sum_of_brackets(terms, x);
        if (const auto n = multiprecision::decide(bracket)) return *n;
        if (step == kExtensionSteps) return multiprecision::nearest(bracket.centre);
    }
}

}  // namespace hushvec
