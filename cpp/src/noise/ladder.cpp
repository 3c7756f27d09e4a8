// The climb down the exact ladder: float64 on the first word, float64 on 64 more bits, multiprecision.
#include "noise/ladder.hpp"

#include "noise/ladder_float64.hpp"

namespace hushvec {
namespace {

constexpr std::uint64_t extension_index(const GaussianWord& word) { return word.pair; }
constexpr std::uint64_t extension_index(const LaplaceWord& word) { return word.sample; }

template <class Word>
Settled climb(const KeyStream& stream, const Word& word, double x, double s, int first_level) {
    if (first_level <= 2) {
        if (const auto n = settle_float64(known_bits(word), x, s)) return {*n, 2};
    }
    if (first_level <= 3) {
        const Block extension = stream_block(stream, domain::kFirstExtension, extension_index(word));
        if (const auto n = settle_float64(known_bits(word, extension), x, s)) return {*n, 3};
    }
    return {settle_multiprecision(stream, word, x, s), 4};
}

}  // namespace

Settled settle(const KeyStream& stream, const GaussianWord& word, double x, double s, int first_level) {
    return climb(stream, word, x, s, first_level);
}

Settled settle(const KeyStream& stream, const LaplaceWord& word, double x, double s, int first_level) {
    return climb(stream, word, x, s, first_level);
}

}  // namespace hushvec
