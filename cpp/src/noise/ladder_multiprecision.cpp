// Level 4 of the exact ladder: brackets of X + s * Z on as many bits as it takes.
#include "noise/ladder_multiprecision.hpp"

#include "noise/ladder_brackets.hpp"

namespace hushvec {
namespace {

using Words = std::vector<std::uint32_t>;
using Bracket = multiprecision::Bracket<UnlimitedNumber>;

}  // namespace

SettledByBits settle_by_bits(const GaussianWord& word, double x, double s, const ExtensionSource& extension) {
    Words radius_words = {word.radius_word};
    Words angle_words = {word.angle_word};
    for (int step = 1;; ++step) {
        const Block block = extension(domain::kFirstExtension + static_cast<std::uint64_t>(step - 1));
        radius_words.insert(radius_words.end(), block.begin(), block.begin() + 8);
        angle_words.insert(angle_words.end(), block.begin() + 8, block.end());
        const Bracket bracket = multiprecision::gaussian_bracket<UnlimitedNumber>(radius_words, angle_words, word.sine, x, s);
        if (const auto n = decide(bracket)) return {*n, step, true};
        if (step == kExtensionSteps) return {multiprecision::nearest(bracket.centre), step, false};
    }
}

SettledByBits settle_by_bits(const LaplaceWord& word, double x, double s, const ExtensionSource& extension) {
    Words words = {word.word};
    for (int step = 1;; ++step) {
        const Block block = extension(domain::kFirstExtension + static_cast<std::uint64_t>(step - 1));
        words.insert(words.end(), block.begin(), block.end());
        const Bracket bracket = multiprecision::laplace_bracket<UnlimitedNumber>(words, x, s);
        if (const auto n = decide(bracket)) return {*n, step, true};
        if (step == kExtensionSteps) return {multiprecision::nearest(bracket.centre), step, false};
    }
}

std::int32_t settle_multiprecision(const KeyStream& stream, const GaussianWord& word, double x, double s) {
    if (multiprecision::decided_by(x)) return multiprecision::saturated_at(x);
    const auto extension = [&](std::uint64_t id) { return stream_block(stream, id, word.pair); };
    return settle_by_bits(word, x, s, extension).index;
}

std::int32_t settle_multiprecision(const KeyStream& stream, const LaplaceWord& word, double x, double s) {
    if (multiprecision::decided_by(x)) return multiprecision::saturated_at(x);
    const auto extension = [&](std::uint64_t id) { return stream_block(stream, id, word.sample); };
    return settle_by_bits(word, x, s, extension).index;
}

}  // namespace hushvec
