// Reports and their sums without Python, small enough for the sanitizers: bits, columns, counts at every boundary, every backend.
#include <bit>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/collect.hpp"
#include "hushvec/dispatch.hpp"
#include "hushvec/threads.hpp"
#include "test_stream.hpp"

namespace {

using namespace hushvec;
using test::check;
using test::test_stream;

bool bit_of(const std::vector<std::uint32_t>& words, std::size_t bits, std::size_t row, std::size_t bit) {
    return (words[row * report_words(bits) + bit / 32] >> (bit % 32)) & 1;
}

// docs/format.md section 12, one bit at a time.
std::uint64_t uniform_of_bit(const KeyStream& stream, std::uint64_t report, std::size_t bits, std::size_t bit) {
    const std::uint64_t unit = report * ((bits + 511) / 512) + bit / 512;
    const std::size_t lane = bit % 512 / 32;
    std::uint64_t uniform = 0;
    for (std::size_t digit = 0; digit < 64; ++digit) {
        const std::uint64_t part = digit / 16;
        const std::uint64_t group = part == 0 ? unit : unit * 3 + part - 1;
        const std::uint64_t domain_id = part == 0 ? domain::kDigits : domain::kMoreDigits;
        const Block block = chacha_block(stream, block_counter(domain_id, group * kGroupBlocks + lane));
        uniform = uniform << 1 | ((block[digit % 16] >> (bit % 32)) & 1);
    }
    return uniform;
}

void test_bits_are_those_of_the_format() {
    const KeyStream stream = test_stream();
    const BitLaw law = {std::uint64_t{1} << 63, 0x4000000000000001u};
    for (const std::size_t bits : {1u, 32u, 33u, 513u}) {
        const std::vector<std::int64_t> codes = {0, static_cast<std::int64_t>(bits) - 1};
        std::vector<std::uint32_t> reports(codes.size() * report_words(bits), 0xFFFFFFFFu);
        one_bit_reports(stream, law, codes.data(), codes.size(), bits, reports.data());
        bool all = true;
        for (std::size_t row = 0; row < codes.size(); ++row) {
            for (std::size_t bit = 0; bit < report_words(bits) * 32; ++bit) {
                const bool is_own = bit == static_cast<std::size_t>(codes[row]);
                const bool expected = bit < bits && uniform_of_bit(stream, row, bits, bit) < (is_own ? law.from_one : law.from_zero);
                all &= bit_of(reports, bits, row, bit) == expected;
            }
        }
        check(all, "bits of reports of " + std::to_string(bits));
    }
}

void test_perturbing_in_place() {
    const KeyStream stream = test_stream();
    const BitLaw law = {~std::uint64_t{0}, 1};   // nearly every bit stays
    std::vector<std::uint32_t> rows(40 * report_words(700));
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::uint32_t>(i * 0x9E3779B9u);
    for (std::size_t row = 0; row < 40; ++row) rows[row * 22 + 21] &= 0x0FFFFFFFu;
    std::vector<std::uint32_t> drawn(rows.size());
    perturb_bits(stream, law, {rows.data(), 40, 700}, drawn.data());
    check(drawn == rows, "bits that are never flipped");
    std::vector<std::uint32_t> in_place = rows;
    const BitLaw even = {std::uint64_t{1} << 63, std::uint64_t{1} << 62};
    perturb_bits(stream, even, {rows.data(), 40, 700}, drawn.data());
    perturb_bits(stream, even, {in_place.data(), 40, 700}, in_place.data());
    check(in_place == drawn && drawn != rows, "in place or not");
}

void test_columns_agree_with_the_law() {
    const KeyStream stream = test_stream();
    const HadamardLaw law = {4, 64, response_law(3.0, 8)};
    std::vector<std::int64_t> codes(100'000);
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::int64_t>(i % 252);
    std::vector<std::uint32_t> reports(codes.size());
    hadamard_reports(stream, law, codes.data(), codes.size(), reports.data());
    std::size_t truths = 0;
    bool in_range = true;
    for (std::size_t i = 0; i < codes.size(); ++i) {
        const auto code = static_cast<std::uint32_t>(codes[i]);
        const std::uint32_t row = code / 4 + 1;
        in_range &= reports[i] < 256;
        truths += reports[i] / 64 == code % 4 && std::popcount(row & (reports[i] % 64)) % 2 == 0;
    }
    const double share = static_cast<double>(truths) / static_cast<double>(codes.size());
    const double expected = static_cast<double>(law.law.truth) / 0x1p64;
    check(in_range, "columns in range");
    check(share > expected - 0.01 && share < expected + 0.01, "share of true columns");   // 6 standard errors
}

void test_counts() {
    for (const std::string& backend : available_backends()) {
        for (const std::size_t bits : {1u, 31u, 32u, 511u, 512u, 513u, 1000u}) {
            for (const std::size_t rows : {0u, 1u, 15u, 16u, 17u, 50u}) {
                std::vector<std::uint32_t> reports(rows * report_words(bits));
                for (std::size_t i = 0; i < reports.size(); ++i) reports[i] = static_cast<std::uint32_t>(i * 0x85EBCA6Bu + bits);
                const std::uint32_t last = ~std::uint32_t{0} >> (report_words(bits) * 32 - bits);
                for (std::size_t row = 0; row < rows; ++row) reports[(row + 1) * report_words(bits) - 1] &= last;
                std::vector<std::int64_t> counts(bits, 7);
                count_bits(kernels_by_name(backend), {reports.data(), rows, bits}, counts.data());
                bool all = true;
                for (std::size_t bit = 0; bit < bits; ++bit) {
                    std::int64_t expected = 7;
                    for (std::size_t row = 0; row < rows; ++row) expected += bit_of(reports, bits, row, bit);
                    all &= counts[bit] == expected;
                }
                check(all, backend + ": counts of " + std::to_string(rows) + " rows of " + std::to_string(bits));
            }
        }
    }
}

void test_groups_add_up() {
    constexpr std::size_t bits = 70, rows = 200'000, words = 3;
    std::vector<std::uint32_t> reports(rows * words), groups(rows);
    for (std::size_t row = 0; row < rows; ++row) {
        groups[row] = static_cast<std::uint32_t>(row * 7 % 3);
        for (std::size_t word = 0; word < words; ++word) reports[row * words + word] = static_cast<std::uint32_t>((row + word) * 0xC2B2AE35u);
        reports[row * words + 2] &= 0x3F;
    }
    const BitRows all = {reports.data(), rows, bits};
    std::vector<std::int64_t> whole(bits), parts(4 * bits);
    count_bits_by_group(all, groups.data(), 4, parts.data());
    for (const std::size_t threads : {1u, 4u}) {
        set_num_threads(threads);
        std::fill(whole.begin(), whole.end(), 0);
        count_bits(all, whole.data());
        bool same = true;
        for (std::size_t bit = 0; bit < bits; ++bit) {
            same &= whole[bit] == parts[bit] + parts[bits + bit] + parts[2 * bits + bit] && parts[3 * bits + bit] == 0;
        }
        check(same, "groups add up, " + std::to_string(threads) + " threads");
    }
}

void test_ones_past_the_end_are_refused() {
    std::vector<std::uint32_t> reports = {0, 0, 0, 0x100};
    bool refused = false;
    try {
        check_bit_rows({reports.data(), 2, 40});
    } catch (const std::invalid_argument&) {
        refused = true;
    }
    check(refused, "a one past the last bit");
    check_bit_rows({reports.data(), 2, 41});
    check_bit_rows({reports.data(), 0, 40});
}

}  // namespace

int main() {
    test_bits_are_those_of_the_format();
    test_perturbing_in_place();
    test_columns_agree_with_the_law();
    test_counts();
    test_groups_add_up();
    test_ones_past_the_end_are_refused();
    return test::summary();
}
