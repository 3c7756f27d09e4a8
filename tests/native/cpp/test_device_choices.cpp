// The CUDA kernels' bodies for discrete choices, run on the host thread by thread. Answers are the CPU core's.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "check.hpp"
#include "device/nearest_body.hpp"
#include "device/response_body.hpp"
#include "device_rows.hpp"
#include "hushvec/discrete.hpp"
#include "hushvec/dispatch.hpp"
#include "hushvec/inner_products.hpp"
#include "plain_products.hpp"
#include "test_stream.hpp"

namespace {

using namespace hushvec;
using namespace hushvec::cuda;
using test::check;
using test::test_stream;

constexpr Report kEmpty = {kNoRow, 0, 0};

// Elements between two stretches that nothing may write to, and whose bytes are no code.
template <class Element>
class Guarded {
public:
    explicit Guarded(std::size_t count) : size_(count), memory_(count + 2 * kGuard) { std::memset(memory_.data(), 0xA5, memory_.size() * sizeof(Element)); }
    explicit Guarded(const std::vector<Element>& inside) : Guarded(inside.size()) { std::copy(inside.begin(), inside.end(), data()); }
    Element* data() { return memory_.data() + kGuard; }
    std::vector<Element> inside() { return {data(), data() + size_}; }
    bool intact() const {
        const Guarded fresh(size_);
        return std::memcmp(memory_.data(), fresh.memory_.data(), kGuard * sizeof(Element)) == 0 &&
               std::memcmp(memory_.data() + kGuard + size_, fresh.memory_.data(), kGuard * sizeof(Element)) == 0;
    }

private:
    static constexpr std::size_t kGuard = 512;   // two groups
    std::size_t size_;
    std::vector<Element> memory_;
};

template <class Code>
std::vector<Code> codes_of(std::size_t count, std::uint64_t labels) {
    std::vector<Code> codes(count);
    for (std::size_t i = 0; i < count; ++i) codes[i] = static_cast<Code>(i * 7 % labels);
    return codes;
}

// As the array's own type has them, and as the device takes them: without a sign.
template <class Unsigned, class Code>
std::vector<Unsigned> as_unsigned(const std::vector<Code>& codes) {
    static_assert(sizeof(Unsigned) == sizeof(Code));
    std::vector<Unsigned> result(codes.size());
    if (!codes.empty()) std::memcpy(result.data(), codes.data(), codes.size() * sizeof(Code));
    return result;
}

template <class Unsigned>
std::uint64_t copied(Unsigned* codes, Unsigned* out, std::size_t count, std::uint64_t labels, std::size_t blocks) {
    Report report = kEmpty;
    const CopyCodesBody<Unsigned> body = {codes, out, count, labels, &report};
    for (std::size_t block = blocks; block-- > 0;) body.run(block, blocks, HostTeam{kResponseThreads});
    return report.first_bad_row;
}

template <class Code, class Unsigned>
void answers_equal_the_core(Cipher cipher, std::size_t count, double epsilon, std::uint64_t labels) {
    const std::string what = std::to_string(count) + " codes of " + std::to_string(sizeof(Code)) + " bytes, " + std::to_string(labels) + " labels, " + hushvec::name_of(cipher);
    const ResponseLaw law = response_law(epsilon, labels);
    const std::vector<Code> codes = codes_of<Code>(count, labels);
    std::vector<Code> expected(count);
    hushvec::randomized_response(test_stream(cipher), law, codes.data(), count, expected.data());

    Guarded<Unsigned> from(as_unsigned<Unsigned>(codes)), out(count);
    check(copied(from.data(), out.data(), count, labels, 2) == kNoRow, "all are codes: " + what);
    check(out.inside() == from.inside() && out.intact(), "they are copied: " + what);
    for (const std::size_t blocks : {std::size_t{1}, std::size_t{3}}) {
        Guarded<Unsigned> in_place(as_unsigned<Unsigned>(codes)), apart(count);
        for (Guarded<Unsigned>* target : {&in_place, &apart}) {
            const Unsigned* const source = target == &apart ? from.data() : in_place.data();
            const ResponseBody<Unsigned> body = {{test_stream(cipher)}, ResponseIntervals(law), source, target->data(), count};
            for (std::size_t block = 0; block < blocks; ++block) body.run(block, blocks, HostTeam{kResponseThreads});
            check(target->inside() == as_unsigned<Unsigned>(expected) && target->intact(), "answers: " + what);
        }
    }
    check(from.inside() == as_unsigned<Unsigned>(codes) && from.intact(), "the codes stay: " + what);
}

template <class Code, class Unsigned>
void answers_of_type() {
    const auto most = static_cast<std::uint64_t>(std::numeric_limits<Code>::max());
    for (const std::size_t count : {0u, 1u, 15u, 16u, 17u, 255u, 256u, 257u, 4096u, 12345u}) answers_equal_the_core<Code, Unsigned>(Cipher::chacha12, count, 1.0, 100);
    for (const std::uint64_t labels : {std::uint64_t{2}, std::uint64_t{3}, std::min(most, kMostLabels - 1) + 1}) {
        for (const double epsilon : {0.01, 2.0, 50.0}) answers_equal_the_core<Code, Unsigned>(Cipher::chacha20, 3000, epsilon, labels);
    }
}

// Every place of a short array, and the first of many where blocks stride; numbers below 0 and above every label.
template <class Code, class Unsigned>
void the_first_that_is_no_code() {
    bool found = true;
    for (const std::uint64_t labels : {std::uint64_t{2}, std::uint64_t{100}}) {
        const Code below = static_cast<Code>(-1), least = std::numeric_limits<Code>::min(), most = std::numeric_limits<Code>::max();
        for (const Code bad : {static_cast<Code>(labels), below, least, most}) {
            if (bad == 0) continue;   // the least of a type without a sign
            for (const std::size_t count : {std::size_t{7}, std::size_t{5000}}) {
                for (std::size_t place = 0; place < count; place += 1 + count / 50) {
                    std::vector<Code> codes = codes_of<Code>(count, labels);
                    codes[place] = codes[count - 1] = bad;
                    Guarded<Unsigned> from(as_unsigned<Unsigned>(codes)), out(count);
                    for (const std::size_t blocks : {1u, 3u}) found &= copied(from.data(), out.data(), count, labels, blocks) == place;
                }
            }
        }
    }
    check(found, "the first number that is no code, " + std::to_string(sizeof(Code)) + " bytes");
}

template <class Code, class Unsigned>
void responses() {
    answers_of_type<Code, Unsigned>();
    the_first_that_is_no_code<Code, Unsigned>();
}

// ---- nearest codes ----

// As numpy's argmax: NaN is above all numbers, and of equal scores the first wins.
std::int32_t largest_of(const std::vector<float>& scores) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < scores.size(); ++i) {
        if (!std::isnan(scores[best]) && (std::isnan(scores[i]) || scores[i] > scores[best])) best = i;
    }
    return static_cast<std::int32_t>(best);
}

// Codes that lie close together, so that the last places of a score decide; some are equal.
std::vector<float> close_codes(std::size_t count, std::size_t columns) {
    std::vector<float> codes = test::rows_of<float>(1, columns), all;
    std::uint32_t state = 7;
    for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t j = 0; j < columns; ++j) {
            state = state * 1664525u + 1013904223u;
            all.push_back(codes[j] * (1 + static_cast<float>(i % 5 == 4 ? 0 : state >> 30) * 0x1p-22f));
        }
    }
    return all;
}

template <class Stored>
std::vector<std::int32_t> nearest_on_device(const std::vector<Stored>& x, const std::vector<float>& codes, std::size_t rows, std::size_t columns,
                                            unsigned row_groups = kMostRowGroups) {
    Guarded<std::int32_t> nearest(rows);
    const NearestBody<Stored> body = {x.data(), codes.data(), rows, codes.size() / columns, columns, nearest.data(), row_groups};
    NearestMemory memory;
    for (std::size_t block = 0; block * body.rows_of_block() < rows; ++block) {
        std::memset(static_cast<void*>(&memory), 0xFF, sizeof memory);   // nobody sets up shared memory
        body.run(block, memory, HostTeam{kNearestThreads});
    }
    check(nearest.intact(), "nothing is written outside the codes");
    return nearest.inside();
}

template <class Stored>
void codes_are_those_of_the_core(std::vector<Stored> x, std::vector<float> codes, std::size_t rows, std::size_t columns, const std::string& kind) {
    const std::size_t count = codes.size() / columns;
    const std::string what = kind + ", " + std::string(test::name_of(test::kDType<Stored>)) + " " + std::to_string(rows) + " x " + std::to_string(columns) +
                             " and " + std::to_string(count) + " codes";
    std::vector<float> wide, scores(rows * count);
    for (const Stored element : x) wide.push_back(widened(element));
    std::vector<std::int32_t> expected, of_core;
    for (std::size_t row = 0; row < rows; ++row) {
        std::vector<float> of_row;
        for (std::size_t c = 0; c < count; ++c) of_row.push_back(test::by_definition(&wide[row * columns], &codes[c * columns], columns, true));
        expected.push_back(largest_of(of_row));
    }
    for (unsigned row_groups = 1; row_groups <= kMostRowGroups; row_groups *= 2) {
        check(nearest_on_device(x, codes, rows, columns, row_groups) == expected,
              "nearest codes by definition, " + std::to_string(row_groups) + " row groups: " + what);
    }
    if (active_backend() == "portable") return;   // it rounds twice a step
    inner_products(test::view_of(wide, rows, columns), test::view_of(codes, count, columns), test::view_of(scores, rows, count));
    for (std::size_t row = 0; row < rows; ++row) of_core.push_back(largest_of({&scores[row * count], &scores[row * count] + count}));
    check(of_core == expected, "nearest codes of the core: " + what);
}

template <class Stored>
void nearest_codes() {
    for (const std::size_t columns : {1u, 7u, 15u, 16u, 17u, 33u, 384u}) {
        for (const std::size_t count : {1u, 2u, 7u, 8u, 9u, 63u, 64u, 65u, 130u}) {
            codes_are_those_of_the_core(test::rows_of<Stored>(19, columns), close_codes(count, columns), 19, columns, "close codes");
        }
        codes_are_those_of_the_core(test::rows_of<Stored>(8, columns), test::rows_of<float>(100, columns), 8, columns, "codes");
        codes_are_those_of_the_core(test::rows_of<Stored>(67, columns), test::rows_of<float>(100, columns), 67, columns, "codes");
        codes_are_those_of_the_core(test::rows_of<Stored>(1, columns), test::rows_of<float>(100, columns), 1, columns, "codes");
    }
}

// Sums that are infinite, or infinities that cancel: NaN counts as the largest, wherever it stands.
void scores_that_are_not_finite() {
    constexpr std::size_t columns = 33, rows = 9, count = 70;
    const float huge = std::numeric_limits<float>::max();
    std::vector<float> x(rows * columns, huge), codes(count * columns, 0.5f);
    for (std::size_t i = 0; i < codes.size(); ++i) {
        const std::size_t code = i / columns;
        if (code % 9 == 5) codes[i] = -0.5f;
        if (code == 21 || code == 66) codes[i] = i % 2 == 0 ? 4.0f : -4.0f;   // NaN
        if (code == 3) codes[i] = 0.01f;
    }
    check(std::isnan(test::by_definition(x.data(), &codes[21 * columns], columns, true)), "a score of NaN");
    codes_are_those_of_the_core(x, codes, rows, columns, "huge rows");
    check(nearest_on_device(x, codes, rows, columns)[0] == 21, "the first NaN");
    codes_are_those_of_the_core(std::vector<float>(rows * columns, 0.0f), codes, rows, columns, "rows of zeros");
    check(nearest_on_device(std::vector<float>(rows * columns, 0.0f), codes, rows, columns)[8] == 0, "of equal scores the first");
}

// Scores of close codes depend on the order of their sums: another order finds other codes, so the tests above would see one.
void another_order_of_sums_finds_other_codes() {
    constexpr std::size_t columns = 384, rows = 19, count = 130;
    const std::vector<float> x = test::rows_of<float>(rows, columns), codes = close_codes(count, columns);
    std::vector<std::int32_t> one_sum;
    for (std::size_t row = 0; row < rows; ++row) {
        std::vector<float> scores(count, 0.0f);
        for (std::size_t c = 0; c < count; ++c) {
            for (std::size_t j = 0; j < columns; ++j) scores[c] = std::fma(x[row * columns + j], codes[c * columns + j], scores[c]);
        }
        one_sum.push_back(largest_of(scores));
    }
    check(nearest_on_device(x, codes, rows, columns) != one_sum, "close codes tell sums apart");
}

}  // namespace

int main() {
    nearest_codes<float>();
    nearest_codes<Float16>();
    nearest_codes<Bfloat16>();
    scores_that_are_not_finite();
    another_order_of_sums_finds_other_codes();
    responses<std::int8_t, std::uint8_t>();
    responses<std::int16_t, std::uint16_t>();
    responses<std::int32_t, std::uint32_t>();
    responses<std::int64_t, std::uint64_t>();
    responses<std::uint8_t, std::uint8_t>();
    responses<std::uint16_t, std::uint16_t>();
    responses<std::uint32_t, std::uint32_t>();
    responses<std::uint64_t, std::uint64_t>();
    return test::summary();
}
