// Discrete answers without Python, small enough for the sanitizers: the law, the layout, types, threads, selections.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.hpp"
#include "discrete/gumbel_bracket.hpp"
#include "discrete/response_intervals.hpp"
#include "discrete/staircase.hpp"
#include "discrete/whole_rows.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/discrete.hpp"
#include "hushvec/discrete_noise.hpp"
#include "hushvec/dispatch.hpp"
#include "hushvec/threads.hpp"
#include "parallel/threads.hpp"
#include "test_stream.hpp"

namespace {

using namespace hushvec;
using test::check;
using test::test_stream;

bool refuses(const std::function<void()>& call) {
    try {
        call();
    } catch (const std::invalid_argument&) {
        return true;
    }
    return false;
}

// docs/format.md section 2, one word at a time.
std::uint32_t word_of(const KeyStream& stream, std::uint64_t domain_id, std::uint64_t sample) {
    const std::uint64_t block = sample / kGroupSamples * kGroupBlocks + sample % kGroupBlocks;
    return chacha_block(stream, block_counter(domain_id, block))[sample % kGroupSamples / kGroupBlocks];
}

std::uint64_t uniform_of(const KeyStream& stream, std::uint64_t high_domain, std::uint64_t sample) {
    return (std::uint64_t{word_of(stream, high_domain, sample)} << 32) | word_of(stream, high_domain + 1, sample);
}

// ---- randomized response ----

// Values of ceil(2^64 / (e^epsilon + k - 1)) by ball arithmetic (Arb), tests/mechanisms/discrete/discrete_reference.py.
void laws() {
    struct Known {
        double epsilon;
        std::uint64_t labels, truth, other;
    };
    const Known known[] = {
        {1.0, 10, 0x3b625754d5647f58, 0x15d8a0f692f4d568},
        {0.5, 3, 0x73ad47288b67dbe8, 0x46295c6bba4c120c},
        {20.0, 1000, 0xffffdd74488cb4e8, 0x8da41f928},
        {44.25, 16777216, 0xfffffffffe000002, 0x2},
    };
    for (const Known& one : known) {
        const ResponseLaw law = response_law(one.epsilon, one.labels);
        check(law.truth == one.truth && law.other == one.other, "law for epsilon = " + std::to_string(one.epsilon));
    }
    for (const double epsilon : {1e-300, 0.01, 45.0, 700.0}) {
        const ResponseLaw law = response_law(epsilon, 2);
        check(law.truth + law.other == 0 && law.truth >= law.other, "the law has 2^64 values");
    }
    check(response_law(700.0, 10).other == 1, "large epsilon");
    const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
    for (const double epsilon : {0.0, -1.0, nan, infinity}) check(refuses([&] { response_law(epsilon, 2); }), "bad epsilon");
    for (const std::uint64_t labels : {std::uint64_t{0}, std::uint64_t{1}, kMostLabels + 1}) {
        check(refuses([&] { response_law(1.0, labels); }), "bad number of labels");
    }
    check(refuses([] { response_law(1e-20, 3); }), "an epsilon below what 64 bits can hold");
}

void intervals() {
    for (const double epsilon : {0.01, 1.0, 30.0, 60.0}) {
        for (const std::uint64_t labels : {std::uint64_t{2}, std::uint64_t{3}, std::uint64_t{1000}, kMostLabels}) {
            const ResponseLaw law = response_law(epsilon, labels);
            const ResponseIntervals cut(law);
            check(cut.number_of(0) == 0 && cut.number_of(law.truth - 1) == 0, "the truth's interval");
            for (const std::uint64_t number : {std::uint64_t{1}, labels / 2, labels - 1}) {
                const std::uint64_t first = law.truth + (number - 1) * law.other;
                check(cut.number_of(first) == number && cut.number_of(first + law.other - 1) == number, "another label's interval");
            }
            check(cut.number_of(~std::uint64_t{0}) == labels - 1, "the last value");
        }
    }
}

template <class Code>
std::vector<Code> codes_of(std::size_t count, std::uint64_t labels) {
    std::vector<Code> codes(count);
    for (std::size_t i = 0; i < count; ++i) codes[i] = static_cast<Code>(i * 7 % labels);
    return codes;
}

template <class Code>
std::vector<std::int64_t> answers(std::size_t count, const ResponseLaw& law, bool in_place) {
    std::vector<Code> codes = codes_of<Code>(count, law.labels);
    check_codes(codes.data(), count, law.labels);
    std::vector<Code> out(in_place ? 0 : count);
    Code* target = in_place ? codes.data() : out.data();
    randomized_response(test_stream(), law, codes.data(), count, target);
    return std::vector<std::int64_t>(target, target + count);
}

void responses_follow_the_format() {
    const ResponseLaw law = response_law(1.0, 100);
    const ResponseIntervals cut(law);
    for (const std::size_t count : std::initializer_list<std::size_t>{0, 1, 255, 256, 257, 2048, 2049, 6000}) {
        const std::vector<std::int64_t> got = answers<std::int32_t>(count, law, false);
        bool same = true;
        for (std::size_t i = 0; i < count; i += 1 + count / 100) {
            same &= got[i] == static_cast<std::int64_t>((i * 7 % 100 + cut.number_of(uniform_of(test_stream(), 20, i))) % 100);
        }
        check(same, "answers of " + std::to_string(count) + " codes");
    }
}

void responses_do_not_depend_on_type_or_threads() {
    const ResponseLaw law = response_law(2.0, 120);
    const std::size_t count = 3 * kSamplesPerThread + 77;   // enough for three threads
    set_num_threads(1);
    const std::vector<std::int64_t> plain = answers<std::int64_t>(count, law, false);
    for (const std::size_t threads : std::initializer_list<std::size_t>{1, 2, 3, 8}) {
        set_num_threads(threads);
        const std::string with = " with " + std::to_string(threads) + " threads";
        check(answers<std::int8_t>(count, law, false) == plain, "int8" + with);
        check(answers<std::int16_t>(count, law, true) == plain, "int16 in place" + with);
        check(answers<std::int32_t>(count, law, true) == plain, "int32 in place" + with);
        check(answers<std::uint8_t>(count, law, true) == plain, "uint8 in place" + with);
        check(answers<std::uint16_t>(count, law, false) == plain, "uint16" + with);
        check(answers<std::uint32_t>(count, law, false) == plain, "uint32" + with);
        check(answers<std::uint64_t>(count, law, false) == plain, "uint64" + with);
    }
}

void wrong_codes_are_refused() {
    const std::vector<std::int32_t> codes = {0, 4, 5, -1};
    check(!refuses([&] { check_codes(codes.data(), 2, 5); }), "codes in range");
    check(refuses([&] { check_codes(codes.data(), 3, 5); }), "a code too large");
    check(refuses([&] { check_codes(codes.data() + 3, 1, 5); }), "a negative code");
}

// ---- top-k ----

std::vector<double> scores_of(std::size_t count) {
    std::vector<double> scores(count);
    std::uint32_t state = 4711;
    for (double& score : scores) {
        state = state * 1664525u + 1013904223u;
        score = static_cast<double>(state) * 0x1p-30;
    }
    return scores;
}

// All brackets, sorted: no screen, no heap.
std::vector<std::int64_t> best_of_all(const TopKSelection& selection, const double* scores, std::size_t row) {
    std::vector<double> noisy(selection.candidates);
    for (std::size_t i = 0; i < selection.candidates; ++i) {
        const std::uint64_t prefix = uniform_of(test_stream(), 22, row * selection.candidates + i);
        noisy[i] = selection.epsilon / (2 * selection.sensitivity) * scores[i] + gumbel_bracket(prefix).value;
    }
    std::vector<std::int64_t> order(selection.candidates);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return noisy[static_cast<std::size_t>(a)] > noisy[static_cast<std::size_t>(b)];
    });
    order.resize(selection.picks);
    return order;
}

void selections_are_the_best_of_all() {
    for (const std::size_t candidates : std::initializer_list<std::size_t>{1, 2, 100, 300, 1000}) {
        for (const std::size_t picks : {std::size_t{1}, (candidates + 1) / 2, candidates}) {
            const TopKSelection selection = {candidates, picks, 1.5, 0.75};
            const std::size_t rows = 5;
            const std::vector<double> scores = scores_of(rows * candidates);
            std::vector<std::int64_t> indices(rows * picks);
            check(gumbel_top_k(test_stream(), selection, scores.data(), rows, indices.data()).empty(), "all rows decided");
            for (std::size_t row = 0; row < rows; ++row) {
                const auto begin = indices.begin() + static_cast<std::ptrdiff_t>(row * picks);
                const std::vector<std::int64_t> got(begin, begin + static_cast<std::ptrdiff_t>(picks));
                check(got == best_of_all(selection, scores.data() + row * candidates, row),
                      std::to_string(picks) + " of " + std::to_string(candidates));
            }
        }
    }
}

void selections_do_not_depend_on_threads() {
    const TopKSelection selection = {1000, 10, 1.0, 1.0};
    const std::size_t rows = 500;
    const std::vector<double> scores = scores_of(rows * selection.candidates);
    const std::vector<float> narrow(scores.begin(), scores.end());
    set_num_threads(1);
    std::vector<std::int64_t> plain(rows * selection.picks), narrow_plain(plain.size());
    gumbel_top_k(test_stream(), selection, scores.data(), rows, plain.data());
    gumbel_top_k(test_stream(), selection, narrow.data(), rows, narrow_plain.data());
    for (const std::size_t threads : std::initializer_list<std::size_t>{2, 3, 8}) {
        set_num_threads(threads);
        std::vector<std::int64_t> indices(plain.size());
        gumbel_top_k(test_stream(), selection, scores.data(), rows, indices.data());
        check(indices == plain, std::to_string(threads) + " threads");
        gumbel_top_k(test_stream(), selection, narrow.data(), rows, indices.data());
        check(indices == narrow_plain, std::to_string(threads) + " threads, float32");
    }
}

// The second of two scores makes up for the difference of the noises: float64 cannot tell which is ahead, and every thread says so.
void near_ties_are_left_open() {
    const TopKSelection selection = {3, 1, 2.0, 1.0};
    const std::size_t rows = 200000;
    std::vector<double> scores(rows * 3, -1000.0);
    for (std::size_t row = 0; row < rows; row += 1000) {
        scores[3 * row] = 0.0;
        scores[3 * row + 1] = gumbel_bracket(uniform_of(test_stream(), 22, 3 * row)).value -
                              gumbel_bracket(uniform_of(test_stream(), 22, 3 * row + 1)).value;
    }
    for (const std::size_t threads : std::initializer_list<std::size_t>{1, 4}) {
        set_num_threads(threads);
        std::vector<std::int64_t> indices(rows);
        const std::vector<UndecidedRow> open = gumbel_top_k(test_stream(), selection, scores.data(), rows, indices.data());
        bool as_expected = open.size() == rows / 1000;
        for (std::size_t i = 0; as_expected && i < open.size(); ++i) {
            as_expected = open[i].row == 1000 * i && open[i].candidates == std::vector<std::uint64_t>{0, 1};
        }
        check(as_expected, "near-ties with " + std::to_string(threads) + " threads");
    }
}

// Differences that overflow say nothing in float64: the whole row is left open.
void overflowing_rows_are_left_open() {
    const double huge = std::numeric_limits<double>::max();
    const std::vector<double> scores = {huge, -huge, huge, 0.0};
    std::vector<std::int64_t> indices(4);
    const auto open = gumbel_top_k(test_stream(), {4, 4, 1.0, 1.0}, scores.data(), 1, indices.data());
    check(open.size() == 1 && open[0].candidates.size() == 4, "an overflowing difference");
}

void bad_selections_are_refused() {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const TopKSelection bad[] = {{3, 0, 1.0, 1.0}, {3, 4, 1.0, 1.0}, {3, 1, 0.0, 1.0}, {3, 1, nan, 1.0}, {3, 1, 1.0, -1.0}, {3, 1, 1.0, 0x1p101}};
    for (const TopKSelection& selection : bad) check(refuses([&] { check_selection(selection); }), "bad selection");
    check(!refuses([] { check_selection({3, 3, 1.0, 1.0}); }), "good selection");
    for (const double value : {nan, HUGE_VAL, -HUGE_VAL}) {
        const std::vector<double> scores = {0.0, 1.0, value};
        check(refuses([&] { check_scores(scores.data(), 1, 3); }), "bad score");
        check(!refuses([&] { check_scores(scores.data(), 1, 2); }), "good scores");
    }
}

// ---- discrete noise ----

constexpr DiscreteLaw kDiscreteLaws[] = {DiscreteLaw::gaussian, DiscreteLaw::laplacian};

// The guide and one comparison say what a search says, on every backend, for words around every bound.
void guides_agree_with_the_bounds() {
    for (const DiscreteLaw law : kDiscreteLaws) {
        for (const double scale : {0x1p-6, 0.3, 4.0, 300.1, 3.2e5, 0x1.1p21, 0x1p40}) {
            const Staircase stairs(law, scale);
            std::vector<std::uint32_t> words = {0, ~std::uint32_t{0}};
            for (const std::uint32_t bound : stairs.bounds) words.insert(words.end(), {bound - 1, bound, bound + 1});
            while (words.size() % 16 != 0) words.push_back(0);
            bool same = std::is_sorted(stairs.bounds.begin(), stairs.bounds.end());
            for (const std::string& backend : available_backends()) {
                std::vector<std::uint32_t> cells(words.size()), open(words.size());
                look_up(stairs.guide, words.data(), words.size(), cells.data());
                open.resize(kernels_by_name(backend).place_words(stairs.cell_bits, words.data(), words.size(), cells.data(), open.data()));
                for (std::size_t i = 0; i < words.size(); ++i) {
                    const auto place = static_cast<std::uint32_t>(
                        std::upper_bound(stairs.bounds.begin(), stairs.bounds.end(), words[i]) - stairs.bounds.begin() - 1);
                    same &= stairs.find(words[i]) == place;
                    if (std::binary_search(open.begin(), open.end(), static_cast<std::uint32_t>(i))) continue;
                    const std::uint32_t cell = words[i] & ((std::uint32_t{1} << stairs.cell_bits) - 1);
                    same &= place < stairs.steps() &&
                            stairs.integer_of(cells[i], 0) == stairs.first_of(place) + (std::int64_t{cell} << stairs.low_bits);
                }
            }
            check(same, "guide of scale " + std::to_string(scale));
        }
    }
}

void discrete_noise_does_not_depend_on_type_or_threads() {
    const KeyStream stream = test_stream();
    constexpr std::size_t kCount = 700'001;
    for (const DiscreteLaw law : kDiscreteLaws) {
        std::vector<std::int64_t> one(kCount), many(kCount);
        std::vector<std::int32_t> narrow(kCount);
        set_num_threads(1);
        fill_discrete(stream, law, 3.2e5, one.data(), kCount);
        set_num_threads(3);
        fill_discrete(stream, law, 3.2e5, many.data(), kCount);
        fill_discrete(stream, law, 3.2e5, narrow.data(), kCount);
        set_num_threads(0);
        check(one == many, "threads");
        check(std::equal(one.begin(), one.end(), narrow.begin()), "int32");
    }
}

void bad_scales_are_refused() {
    const KeyStream stream = test_stream();
    std::int64_t wide = 0;
    std::int32_t narrow = 0;
    for (const double scale : {0.0, 0x1p-7, 0x1.1p40, std::numeric_limits<double>::quiet_NaN()}) {
        check(refuses([&] { fill_discrete(stream, DiscreteLaw::gaussian, scale, &wide, 1); }), "a scale out of range");
    }
    check(refuses([&] { fill_discrete(stream, DiscreteLaw::gaussian, 0x1.1p27, &narrow, 1); }), "sigma for int32");
    check(refuses([&] { fill_discrete(stream, DiscreteLaw::laplacian, 0x1.1p24, &narrow, 1); }), "scale for int32");
}

// Elements of up to `bits` bits, and the smallest of them.
std::vector<std::int64_t> whole_row(std::size_t count, int bits, std::uint64_t seed) {
    std::vector<std::int64_t> row(count);
    std::mt19937_64 draw(seed);
    for (std::int64_t& element : row) element = static_cast<std::int64_t>(draw()) >> (63 - bits);
    row[count / 2] = -(std::int64_t{1} << (bits - 1)) * 2;
    return row;
}

void rows_of_whole_numbers_are_the_same_on_every_backend() {
    for (const std::string& name : available_backends()) {
        const Kernels& kernels = kernels_by_name(name);
        for (const std::size_t count : {1, 2, 7, 64, 301}) {
            for (const int bits : {1, 5, 26, 51, 61, 63}) {
                const std::vector<std::int64_t> row = whole_row(count, bits, count), other = whole_row(count, bits, count + 1);
                for (const bool squares : {false, true}) {
                    std::uint64_t total = 0, any = 0;
                    for (const std::int64_t element : row) {
                        const std::uint64_t size = element < 0 ? 0 - static_cast<std::uint64_t>(element) : static_cast<std::uint64_t>(element);
                        total += squares ? size * size : size;
                        any |= size;
                    }
                    const WholeSizes sizes = kernels.whole_sizes(row.data(), count, squares);
                    check(sizes.total == total && sizes.bits == any, name + ": sizes");
                }
                std::vector<std::int64_t> sums(count);
                std::vector<std::int32_t> narrow(count);
                bool overflows = false, loses = false, same = true;
                const bool beyond = kernels.add_whole(row.data(), other.data(), count, sums.data());
                const bool beyond_int32 = kernels.add_whole_to_int32(row.data(), other.data(), count, narrow.data());
                for (std::size_t i = 0; i < count; ++i) {
                    std::int64_t sum;
                    overflows |= __builtin_add_overflow(row[i], other[i], &sum);
                    loses |= sum != static_cast<std::int32_t>(sum);
                    same &= sums[i] == sum && narrow[i] == static_cast<std::int32_t>(sum);
                }
                check(same && beyond == overflows && beyond_int32 == (overflows || loses), name + ": sums");
                if (bits > kMostScaledBits) continue;
                std::vector<std::int64_t> scaled(count);
                check(kernels.scale_whole(row.data(), count, 0.5, scaled.data()), name + ": the half of an even number is open");
                for (const double q : {0.3, 0x1.8p-40, 0x1.fffffffffffffp-1}) {
                    const bool open = kernels.scale_whole(row.data(), count, q, scaled.data());
                    bool right = true, any_open = false;
                    for (std::size_t i = 0; i < count; ++i) {
                        const long double quotient = static_cast<long double>(row[i]) * q;
                        const bool open_here = scaled[i] == kUndecided;
                        any_open |= open_here;
                        right &= open_here || (std::trunc(quotient) == scaled[i] && std::trunc(quotient * (1 + 0x1p-51L)) == scaled[i]);
                    }
                    check(right && open == any_open, name + ": the integer part");
                }
            }
        }
    }
}

}  // namespace

int main() {
    laws();
    intervals();
    responses_follow_the_format();
    responses_do_not_depend_on_type_or_threads();
    wrong_codes_are_refused();
    selections_are_the_best_of_all();
    selections_do_not_depend_on_threads();
    near_ties_are_left_open();
    overflowing_rows_are_left_open();
    bad_selections_are_refused();
    guides_agree_with_the_bounds();
    discrete_noise_does_not_depend_on_type_or_threads();
    bad_scales_are_refused();
    rows_of_whole_numbers_are_the_same_on_every_backend();
    return hushvec::test::summary();
}
