// Level 4 of the ladder on uniforms whose own bits lie next to a tie, and its first step in both number types.
//
//   test_ladder_bits tests/evidence/vectors/ladder_bits.csv       written by make_ladder_bits_vectors.py
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "check.hpp"
#include "noise/ladder_brackets.hpp"
#include "noise/ladder_first_step.hpp"
#include "noise/ladder_multiprecision.hpp"

namespace {

using namespace hushvec;
using test::check;
using Words = std::vector<std::uint32_t>;

struct Row {
    bool gaussian;
    bool sine;
    double x, s;
    Words radius_words, angle_words;   // Laplace: radius_words alone
    int steps;
    bool decided;
    bool first_step;
    std::int32_t n;

    GaussianWord pair() const { return {0, radius_words[0], angle_words[0], sine}; }
    LaplaceWord sample() const { return {0, radius_words[0]}; }
};

Words words_of(const std::string& hexadecimal) {
    Words words;
    for (std::size_t at = 0; at < hexadecimal.size(); at += 8) {
        words.push_back(static_cast<std::uint32_t>(std::stoul(hexadecimal.substr(at, 8), nullptr, 16)));
    }
    return words;
}

std::vector<Row> read_rows(const char* path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);   // law,output,x,s,radius_words,angle_words,steps,decided,first_step,n
    std::vector<Row> rows;
    while (std::getline(file, line)) {
        std::istringstream fields(line);
        std::vector<std::string> field(10);
        for (std::string& text : field) std::getline(fields, text, ',');
        const bool gaussian = field[0] == "gaussian";
        rows.push_back({gaussian, field[1] == "sine", std::stod(field[2]), std::stod(field[3]), words_of(field[4]),
                        gaussian ? words_of(field[5]) : Words{}, std::stoi(field[6]), field[7] == "1", field[8] == "1",
                        std::stoi(field[9])});
    }
    return rows;
}

// Extension block `step`, 1 to row.steps.
Block extension_block(const Row& row, std::size_t step) {
    Block block{};
    const std::size_t each = row.gaussian ? 8 : 16;
    for (std::size_t i = 0; i < each; ++i) {
        block[i] = row.radius_words[1 + (step - 1) * each + i];
        if (row.gaussian) block[each + i] = row.angle_words[1 + (step - 1) * each + i];
    }
    return block;
}

SettledByBits settled(const Row& row) {
    const ExtensionSource extension = [&](std::uint64_t domain_id) {
        const std::uint64_t step = domain_id - domain::kFirstExtension + 1;
        // Past the words that must decide: zeros, and the count of steps shows it.
        return step <= static_cast<std::uint64_t>(row.steps) ? extension_block(row, step) : Block{};
    };
    return row.gaussian ? settle_by_bits(row.pair(), row.x, row.s, extension) : settle_by_bits(row.sample(), row.x, row.s, extension);
}

std::string name(const Row& row, std::size_t number) {
    return "row " + std::to_string(number + 2) + (row.gaussian ? " (gaussian): " : " (laplace): ");
}

void words_next_to_a_tie_are_read_until_they_decide(const std::vector<Row>& rows) {
    int beyond_first_step[2] = {};
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const Row& row = rows[i];
        const SettledByBits result = settled(row);
        check(result.index == row.n, name(row, i) + "index " + std::to_string(result.index) + ", not " + std::to_string(row.n));
        check(result.steps == row.steps, name(row, i) + "steps " + std::to_string(result.steps) + ", not " + std::to_string(row.steps));
        check(result.decided == row.decided, name(row, i) + "decided");
        beyond_first_step[row.gaussian] += result.steps >= 2;
    }
    check(beyond_first_step[0] >= 30, "Laplace vectors that take two steps or more");
    check(beyond_first_step[1] >= 80, "Gaussian vectors that take two steps or more");
}

void the_first_step_decides_what_its_words_decide(const std::vector<Row>& rows) {
    int decided = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const Row& row = rows[i];
        const Block extension = extension_block(row, 1);
        const SettledByPrefix result = row.gaussian ? settle_first_step(row.pair(), extension, row.x, row.s)
                                                    : settle_first_step(row.sample(), extension, row.x, row.s);
        check(result.decided == row.first_step, name(row, i) + "decided by the first step");
        if (result.decided) check(result.index == row.n, name(row, i) + "index of the first step");
        decided += result.decided;
    }
    check(decided >= 10, "vectors that the first step decides: " + std::to_string(decided));
}

template <class A, class B>
bool equal_limbs(const FixedPoint<A>& a, const FixedPoint<B>& b) {
    bool equal = a.negative() == b.negative() && a.size() == b.size();
    for (std::size_t i = 0; equal && i < a.size(); ++i) equal = a.limb(i) == b.limb(i);
    return equal;
}

template <class Number>
multiprecision::Bracket<Number> bracket_of(const Row& row, std::size_t words) {
    const std::span<const std::uint32_t> radius_words(row.radius_words.data(), words);
    if (!row.gaussian) return multiprecision::laplace_bracket<Number>(radius_words, row.x, row.s);
    return multiprecision::gaussian_bracket<Number>(radius_words, std::span(row.angle_words.data(), words), row.sine, row.x, row.s);
}

void both_number_types_give_the_same_limbs(const std::vector<Row>& rows) {
    int different = 0;
    for (const Row& row : rows) {
        for (const std::size_t words : {std::size_t{1}, std::size_t{5}, multiprecision::kKnownWords}) {
            const auto with_vector = bracket_of<UnlimitedNumber>(row, words);
            const auto with_array = bracket_of<multiprecision::FirstStepNumber>(row, words);
            different += !equal_limbs(with_vector.centre, with_array.centre) ||
                         !equal_limbs(with_vector.half_width, with_array.half_width) || with_vector.bounded != with_array.bounded;
        }
    }
    check(different == 0, std::to_string(different) + " brackets differ between the number types");
}

// What truncated() makes of a double, read back: exact down to one ulp, towards zero below.
void doubles_convert_exactly() {
    const auto number = [](double value) { return UnlimitedNumber::truncated(3, value); };
    const auto fraction = [](const UnlimitedNumber& n) { return std::uint64_t{n.limb(1)} << 32 | n.limb(0); };
    check(number(0x1.8p24).integer_part() == 0x1800000 && fraction(number(0x1.8p24)) == 0, "an integer");
    check(number(-0x1.8p-1).limb(2) == 0xc0000000 && number(-0x1.8p-1).negative(), "a negative fraction");
    check(fraction(number(0x1.0000000000001p-44)) == 0x0010000000000001, "53 bits down to the last one");
    check(fraction(number(0x1.fffffffffffffp-45)) == 0x000fffffffffffff, "the bit beyond is cut off");
    check(number(0x1p-96).limb(0) == 1 && number(0x1.fp-97).is_zero(), "one ulp, and less");
    check(number(0.0).is_zero() && number(5e-324).is_zero() && number(0x1.fp-1000).is_zero(), "zero and tiny values");
}

void x_alone_decides_beyond_saturation() {
    const GaussianWord pair{0, 1u << 31, 1, false};
    const LaplaceWord sample{0, 1};
    for (const double x : {0x1p25, 0x1p60, 1e300}) {
        const auto positive = settle_first_step(pair, Block{}, x, 64.0);
        const auto negative = settle_first_step(sample, Block{}, -x, 64.0);
        check(positive.decided && positive.index == kMaxGridIndex, "saturates upwards");
        check(negative.decided && negative.index == -kMaxGridIndex, "saturates downwards");
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: test_ladder_bits ladder_bits.csv\n");
        return 2;
    }
    const std::vector<Row> rows = read_rows(argv[1]);
    words_next_to_a_tie_are_read_until_they_decide(rows);
    the_first_step_decides_what_its_words_decide(rows);
    both_number_types_give_the_same_limbs(rows);
    doubles_convert_exactly();
    x_alone_decides_beyond_saturation();
    return hushvec::test::summary();
}
