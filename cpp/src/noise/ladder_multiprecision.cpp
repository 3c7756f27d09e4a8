// Level 4 of the exact ladder on numbers of any length: more bits until the rounding is decided.
#include "noise/ladder_multiprecision.hpp"

#include <vector>

namespace hushvec {
namespace {

using Words = std::vector<std::uint32_t>;
using multiprecision::WordSpan;

}  // namespace

Bracket gaussian_bracket(WordSpan radius_words, WordSpan angle_words, bool sine, double x, double s) {
    return multiprecision::gaussian_bracket<FixedPoint>(radius_words, angle_words, sine, x, s);
}

Bracket laplace_bracket(WordSpan words, double x, double s) { return multiprecision::laplace_bracket<FixedPoint>(words, x, s); }

std::optional<std::int32_t> decide(const Bracket& bracket) { return multiprecision::decide(bracket); }

std::int32_t nearest(const FixedPoint& centre) { return multiprecision::nearest(centre); }

SettledByBits settle_by_bits(const GaussianWord& word, double x, double s, const ExtensionSource& extension) {
    Words radius_words = {word.radius_word};
    Words angle_words = {word.angle_word};
    for (int step = 1;; ++step) {
        const Block block = extension(domain::kFirstExtension + static_cast<std::uint64_t>(step - 1));
        radius_words.insert(radius_words.end(), block.begin(), block.begin() + 8);
        angle_words.insert(angle_words.end(), block.begin() + 8, block.end());
        const Bracket bracket = gaussian_bracket(radius_words, angle_words, word.sine, x, s);
        if (const auto n = decide(bracket)) return {*n, step, true};
        if (step == kExtensionSteps) return {nearest(bracket.centre), step, false};
    }
}

SettledByBits settle_by_bits(const LaplaceWord& word, double x, double s, const ExtensionSource& extension) {
    Words words = {word.word};
    for (int step = 1;; ++step) {
        const Block block = extension(domain::kFirstExtension + static_cast<std::uint64_t>(step - 1));
        words.insert(words.end(), block.begin(), block.end());
        const Bracket bracket = laplace_bracket(words, x, s);
        if (const auto n = decide(bracket)) return {*n, step, true};
        if (step == kExtensionSteps) return {nearest(bracket.centre), step, false};
    }
}

std::int32_t settle_multiprecision(const KeyStream& stream, const GaussianWord& word, double x, double s) {
    if (multiprecision::decided_by(x)) return multiprecision::saturated_at(x);
    const auto extension = [&](std::uint64_t id) { return chacha_block(stream, block_counter(id, word.pair)); };
    return settle_by_bits(word, x, s, extension).index;
}

std::int32_t settle_multiprecision(const KeyStream& stream, const LaplaceWord& word, double x, double s) {
    if (multiprecision::decided_by(x)) return multiprecision::saturated_at(x);
    const auto extension = [&](std::uint64_t id) { return chacha_block(stream, block_counter(id, word.sample)); };
    return settle_by_bits(word, x, s, extension).index;
}

}  // namespace hushvec
