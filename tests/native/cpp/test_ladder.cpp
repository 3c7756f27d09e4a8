// The ladder against independent arbitrary precision, and its float64 functions against long double.
//
//   test_ladder tests/evidence/vectors/ladder.csv       written by make_ladder_vectors.py: samples 2^-5 to 2^-96 from a half-integer
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "check.hpp"
#include "noise/ladder.hpp"
#include "noise/ladder_first_step.hpp"
#include "noise/ladder_float64.hpp"

namespace {

using namespace hushvec;
using test::check;

struct Row {
    KeyStream stream;
    bool gaussian;
    GaussianWord pair;
    LaplaceWord sample;
    double x, s;
    int log2_distance;
    std::int32_t n;
};

std::vector<Row> read_rows(const char* path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);   // law,rounds,key,nonce,index,word_a,word_b,output,x,s,log2_distance,n
    std::vector<Row> rows;
    while (std::getline(file, line)) {
        std::istringstream fields(line);
        std::vector<std::string> field(12);
        for (std::string& text : field) std::getline(fields, text, ',');
        Row row{};
        row.gaussian = field[0] == "gaussian";
        row.stream.cipher = static_cast<Cipher>(std::stoi(field[1]));
        for (std::size_t byte = 0; byte < 32; ++byte) {
            row.stream.key[byte / 4] |= static_cast<std::uint32_t>(std::stoul(field[2].substr(2 * byte, 2), nullptr, 16)) << (8 * (byte % 4));
        }
        row.stream.nonce = std::stoull(field[3]);
        const std::uint64_t index = std::stoull(field[4]);
        const auto word = static_cast<std::uint32_t>(std::stoul(field[5]));
        if (row.gaussian) {
            row.pair = {index, word, static_cast<std::uint32_t>(std::stoul(field[6])), field[7] == "sine"};
        } else {
            row.sample = {index, word};
        }
        row.x = std::stod(field[8]);
        row.s = std::stod(field[9]);
        row.log2_distance = std::stoi(field[10]);
        row.n = std::stoi(field[11]);
        rows.push_back(row);
    }
    return rows;
}

void every_level_agrees_with_the_vectors(const std::vector<Row>& rows) {
    check(rows.size() > 1000, "vectors read: " + std::to_string(rows.size()));
    int reached[5] = {};
    for (const int first_level : {2, 3, 4}) {
        int wrong = 0;
        for (const Row& row : rows) {
            const Settled settled = row.gaussian ? settle(row.stream, row.pair, row.x, row.s, first_level)
                                                 : settle(row.stream, row.sample, row.x, row.s, first_level);
            wrong += settled.index != row.n;
            if (first_level == 2) ++reached[settled.level];
        }
        check(wrong == 0, std::to_string(wrong) + " wrong, entered at level " + std::to_string(first_level));
    }
    for (const int level : {2, 3, 4}) check(reached[level] > 20, "vectors that level " + std::to_string(level) + " decides");
}

// All of them lie further than 2^-256 from a tie: one step without a heap decides as the whole ladder does.
void the_first_step_agrees_with_the_vectors(const std::vector<Row>& rows) {
    int undecided = 0;
    int wrong = 0;
    for (const Row& row : rows) {
        const std::uint64_t index = row.gaussian ? row.pair.pair : row.sample.sample;
        const Block extension = chacha_block(row.stream, block_counter(domain::kFirstExtension, index));
        const SettledByPrefix settled = row.gaussian ? settle_first_step(row.pair, extension, row.x, row.s)
                                                     : settle_first_step(row.sample, extension, row.x, row.s);
        undecided += !settled.decided;
        wrong += settled.decided && settled.index != row.n;
    }
    check(undecided == 0, std::to_string(undecided) + " not decided by the first step");
    check(wrong == 0, std::to_string(wrong) + " wrong after the first step");
}

// The same samples with a quarter of the bound: wrong answers must appear, or the vectors could not show a wrong bound.
void a_quarter_of_the_bound_is_caught(const std::vector<Row>& rows) {
    int wrong = 0;
    for (const Row& row : rows) {
        const auto n = row.gaussian ? settle_float64(known_bits(row.pair), row.x, row.s, 0.25)
                                    : settle_float64(known_bits(row.sample), row.x, row.s, 0.25);
        wrong += n.has_value() && *n != row.n;
    }
    check(wrong > 0, "a quarter of the level-2 bound gives wrong answers");
}

// long double has 11 bits more than double; its own error of some 2^-63 disappears in what is measured.
void float64_functions_keep_their_bounds() {
    double log_error = 0, sine_error = 0, cosine_error = 0;
    const auto measure_log = [&](Dyadic u) {
        const long double value = static_cast<long double>(u.numerator) / std::ldexp(1.0L, u.bits);
        const long double truth = value > 0.5L ? -std::log1p(-(std::ldexp(1.0L, u.bits) - static_cast<long double>(u.numerator)) / std::ldexp(1.0L, u.bits))
                                               : -std::log(value);
        log_error = std::max(log_error, static_cast<double>(std::fabs((static_cast<long double>(minus_log(u)) - truth) / truth)));
    };
    const auto measure_angle = [&](Dyadic w) {
        constexpr long double kPi = 3.14159265358979323846264338327950288L;
        const long double angle = kPi * static_cast<long double>(w.numerator) / std::ldexp(1.0L, w.bits);
        sine_error = std::max(sine_error, static_cast<double>(std::fabs(static_cast<long double>(sin_pi(w)) - std::sin(angle))));
        cosine_error = std::max(cosine_error, static_cast<double>(std::fabs(static_cast<long double>(cos_pi(w)) - std::cos(angle))));
    };
    std::uint64_t state = 1;
    for (int i = 0; i < 1000000; ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const std::uint64_t bits = state >> (i % 2 == 0 ? 0 : state % 63);
        const std::uint64_t near_one = ~(bits >> 1) >> 1 | 1;   // both ends of (0, 1)
        if ((bits >> 1) != 0) measure_log({bits >> 1, 63});
        measure_log({near_one, 63});
        measure_angle({bits >> 2, 64});   // [0, 1/4]
    }
    for (std::uint64_t i = 1; i < 3000; ++i) {
        for (const std::uint64_t special : {std::uint64_t{1} << 62, (std::uint64_t{1} << 63) / 3, (std::uint64_t{1} << 63) / 3 * 2, std::uint64_t{1} << 63}) {
            measure_log({special - i, 63});
        }
        measure_angle({i, 64});
        measure_angle({(std::uint64_t{1} << 62) - i, 64});
    }
    std::printf("measured: log %.2e of %.2e, sine %.2e and cosine %.2e of %.2e\n", log_error, kMinusLogError, sine_error, cosine_error, kSinCosError);
    check(log_error <= kMinusLogError, "log");
    check(sine_error <= kSinCosError, "sine");
    check(cosine_error <= kSinCosError, "cosine");
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: test_ladder ladder.csv\n");
        return 2;
    }
    const std::vector<Row> rows = read_rows(argv[1]);
    every_level_agrees_with_the_vectors(rows);
    the_first_step_agrees_with_the_vectors(rows);
    a_quarter_of_the_bound_is_caught(rows);
    float64_functions_keep_their_bounds();
    return hushvec::test::summary();
}
