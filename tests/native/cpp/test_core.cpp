// The core without Python, small enough for the sanitizers: key stream, layout, exact rounding, arrays, threads, fork.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"
#include "dispatch/dispatch.hpp"
#include "host.hpp"
#include "hushvec/clip.hpp"
#include "hushvec/dispatch.hpp"
#include "hushvec/generator.hpp"
#include "hushvec/noise.hpp"
#include "hushvec/threads.hpp"
#include "hushvec/wiped_stream.hpp"
#include "joined_runs.hpp"
#include "lanes/float16.hpp"
#include "noise/ladder.hpp"
#include "plain_rows.hpp"
#include "test_stream.hpp"

namespace {

using namespace hushvec;
using test::check;
using test::half_run;
using test::in_child;
using test::JoinedRun;
using test::rows_of;
using test::test_stream;
using test::view_of;

// RFC 8439 section 2.3.2 in the 64-bit counter layout: counter word 13 is the first nonce word.
void block_known_answer() {
    KeyStream stream;
    for (std::uint32_t i = 0; i < 8; ++i) stream.key[i] = 0x03020100u + 0x04040404u * i;
    stream.nonce = 0x4a000000u;
    const Block block = chacha_block(stream, (std::uint64_t{0x09000000u} << 32) | 1);
    check(block[0] == 0xe4e7f110u && block[15] == 0x4e3c50a2u, "RFC 8439 2.3.2");
}

void keystream_equals_blocks(const Kernels& kernels) {
    const std::uint64_t around_2_32 = (std::uint64_t{1} << 28) - 1;   // its group ends at block 2^32
    for (const Cipher cipher : kCiphers) {
        const WipedStream stream(test_stream(cipher));
        std::vector<std::uint32_t> words(2 * kGroupSamples);
        kernels.keystream(stream, domain::kLowWords, around_2_32, 2, words.data());
        bool equal = true;
        for (std::size_t block = 0; block < 2 * kGroupBlocks; ++block) {
            const Block expected = lane_block(stream, domain::kLowWords, around_2_32 * kGroupBlocks + block);
            for (std::size_t word = 0; word < kBlockWords; ++word) {
                equal &= words[block / kGroupBlocks * kGroupSamples + word * kGroupBlocks + block % kGroupBlocks] == expected[word];
            }
        }
        check(equal, std::string(kernels.name) + " key stream, " + name_of(cipher));
    }
}

// Level 1 with its bound against the ladder entered below it, lane by lane, where the answer is close.
void level_one_equals_ladder(const Kernels& kernels) {
    const WordKernels& on_words = word_kernels_by_name(kernels.name);
    const KeyStream stream = test_stream(Cipher::chacha8);
    constexpr std::size_t count = 1 << 14;
    std::vector<std::uint32_t> a(count), b(count);
    kernels.keystream(stream, domain::kMain, 0, count / kGroupSamples, a.data());
    kernels.keystream(stream, domain::kMain, 1 << 20, count / kGroupSamples, b.data());
    std::vector<double> zero(count, 0.0);
    for (const float s : {64.0f, 127.9f, 0.7f}) {
        std::vector<std::int32_t> n_cosine(count), n_sine(count);
        on_words.exact_gaussian_words(stream, 5, a.data(), b.data(), zero.data(), zero.data(), true, count, s, kernels.gaussian_bound,
                                      n_cosine.data(), n_sine.data());
        bool equal = true;
        for (std::size_t i = 0; i < count; ++i) {
            equal &= n_cosine[i] == settle(stream, GaussianWord{5 + i, a[i], b[i], false}, 0, double{s}).index;
            equal &= n_sine[i] == settle(stream, GaussianWord{5 + i, a[i], b[i], true}, 0, double{s}).index;
        }
        check(equal, std::string(kernels.name) + " Gaussian level 1, s " + std::to_string(s));
        std::vector<std::int32_t> n(count);
        on_words.exact_laplace_words(stream, 5, a.data(), zero.data(), false, count, s, kernels.laplace_bound, n.data());
        equal = true;
        for (std::size_t i = 0; i < count; ++i) equal &= n[i] == settle(stream, LaplaceWord{5 + i, a[i]}, 0, double{s}).index;
        check(equal, std::string(kernels.name) + " Laplace level 1, s " + std::to_string(s));
    }
}

// Group 2^29 has the first words whose ChaCha block number has a high half.
void half_words_equal_joined_words(const Kernels& kernels, Cipher cipher) {
    KeyStream plain = test_stream(cipher);
    plain.segment_bits = 8;   // the key changes every four groups of words
    const WipedStream stream(plain);
    for (const std::uint64_t first_group : {std::uint64_t{0}, std::uint64_t{5}, (std::uint64_t{1} << 29) - 3, std::uint64_t{1} << 30}) {
        for (const std::size_t groups : {1u, 2u, 37u}) {
            const JoinedRun joined(kernels, stream, first_group, groups);
            std::vector<float> x = rows_of(groups * kGroupSamples);
            for (float& one : x) one *= 40;
            const std::vector<double> wide(x.begin(), x.end());
            std::vector<double> finer = wide;   // float64 elements that are no float32 numbers
            for (double& one : finer) one *= 1 + 0x1p-30;
            const std::vector<double> edge = joined.undecided(kernels, 12.8f);
            check(half_run(kernels.half_gaussian_f64, kernels.settle_gaussian_f64, stream, first_group, edge, 12.8f, kernels.gaussian_bound) ==
                      joined.gaussian(kernels, stream, edge, 12.8f, false),
                  std::string(kernels.name) + " half words that decide nothing, " + name_of(cipher));
            for (const float s : {8.0f, 12.8f, 100.0f, 0.01f}) {
                const std::string which = std::string(kernels.name) + ", " + name_of(cipher) + ", group " + std::to_string(first_group) +
                                          ", " + std::to_string(groups) + " groups, s " + std::to_string(s);
                check(half_run(kernels.half_gaussian, kernels.settle_gaussian, stream, first_group, x, s, kernels.gaussian_bound) ==
                          joined.gaussian(kernels, stream, wide, s, true),
                      "half words, Gaussian, " + which);
                check(half_run(kernels.half_gaussian_f64, kernels.settle_gaussian_f64, stream, first_group, finer, s, kernels.gaussian_bound) ==
                          joined.gaussian(kernels, stream, finer, s, false),
                      "half words, Gaussian of float64, " + which);
                check(half_run(kernels.half_laplace, kernels.settle_laplace, stream, first_group, x, s, kernels.laplace_bound) ==
                          joined.laplace(kernels, stream, wide, s, true),
                      "half words, Laplace, " + which);
                check(half_run(kernels.half_laplace_f64, kernels.settle_laplace_f64, stream, first_group, finer, s, kernels.laplace_bound) ==
                          joined.laplace(kernels, stream, finer, s, false),
                      "half words, Laplace of float64, " + which);
            }
        }
    }
}

void sixteen_bit_conversions(const Kernels& kernels) {
    std::vector<std::uint16_t> halves(1 << 16);
    for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
    std::vector<float> wide(halves.size());
    kernels.widen_float16(halves.data(), halves.size(), wide.data());
    bool same = true, back = true;
    for (std::size_t i = 0; i < halves.size(); ++i) {
        const float expected = float16_to_float(halves[i]);
        same &= std::isnan(expected) ? std::isnan(wide[i]) : expected == wide[i];
        if (std::isfinite(expected)) back &= float_to_float16(expected) == halves[i];
    }
    check(same, std::string(kernels.name) + " float16 widening, every value");
    check(back, "float16 round trip, every finite value");

    std::vector<float> values;   // halfway cases and their neighbours
    for (std::uint32_t i = 1; i < 0x7C00u; i += 7) {
        const float middle = 0.5f * (float16_to_float(static_cast<std::uint16_t>(i)) + float16_to_float(static_cast<std::uint16_t>(i - 1)));
        for (const float value : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e30f)}) values.push_back(-value);
    }
    std::vector<std::uint16_t> narrow(values.size());
    kernels.narrow_float16(values.data(), values.size(), narrow.data());
    bool equal = true;
    for (std::size_t i = 0; i < values.size(); ++i) equal &= narrow[i] == float_to_float16(values[i]);
    check(equal, std::string(kernels.name) + " float16 narrowing at halfway cases");
}

void whole_numbers_to_int8(const Kernels& kernels) {
    bool equal = true;
    for (std::size_t count = 0; count < 70; ++count) {
        std::vector<float> values(count);
        for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(static_cast<int>(i * 37 % 400) - 200) * (i % 11 == 0 ? 1e5f : 1.0f);
        std::vector<std::int8_t> narrow(count + 1, 99);
        kernels.narrow_int8(values.data(), count, narrow.data());
        for (std::size_t i = 0; i < count; ++i) equal &= narrow[i] == static_cast<int>(std::min(std::max(values[i], -127.0f), 127.0f));
        equal &= narrow[count] == 99;
    }
    check(equal, std::string(kernels.name) + " int8, saturated at both ends");
}

std::vector<float> noisy(std::size_t rows, std::size_t columns, Law law, std::size_t threads) {
    set_num_threads(threads);
    std::vector<float> x = rows_of(rows * columns), out(x.size());
    clip_and_noise(test_stream(Cipher::chacha20), view_of(x, DType::float32, rows, columns), 1.0, 0.6, law, true, view_of(out, DType::float32, rows, columns));
    set_num_threads(0);
    return out;
}

void threads_do_not_change_bits() {
    for (const Law law : {Law::gaussian, Law::laplacian}) {
        for (const std::size_t columns : {std::size_t{384}, std::size_t{768}, std::size_t{1001}}) {
            const std::size_t rows = 700000 / columns;
            const std::vector<float> one = noisy(rows, columns, law, 1);
            check(one == noisy(rows, columns, law, 2) && one == noisy(rows, columns, law, 5), "threads, d = " + std::to_string(columns));
        }
    }
}

// One result for every way to lay out the same rows.
void layouts_do_not_change_bits() {
    constexpr std::size_t rows = 9, columns = 131;
    std::vector<float> x = rows_of(rows * columns), expected(x.size());
    const MatrixView source = view_of(x, DType::float32, rows, columns);
    const auto run = [&](const MatrixView& from, const MatrixView& to) {
        return clip_and_noise(test_stream(Cipher::chacha12), from, 1.0, 0.6, Law::gaussian, true, to);
    };
    run(source, view_of(expected, DType::float32, rows, columns));

    std::vector<float> transposed(x.size());
    const MatrixView by_columns = {reinterpret_cast<std::byte*>(transposed.data()), DType::float32, rows, columns, 4, 4 * rows};
    for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < columns; ++c) transposed[c * rows + r] = x[r * columns + c];
    }
    run(by_columns, by_columns);
    bool equal = true;
    for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < columns; ++c) equal &= transposed[c * rows + r] == expected[r * columns + c];
    }
    check(equal, "column-major, in place");

    std::vector<double> wide(x.begin(), x.end());
    const MatrixView wide_view = view_of(wide, DType::float64, rows, columns);
    run(wide_view, wide_view);
    std::size_t different = 0;   // a float64 row keeps bits of the scaled row that float32 rounds away
    for (std::size_t i = 0; i < x.size(); ++i) different += wide[i] != double{expected[i]};
    check(different < 5, "float64 rows give the float32 result but for roundings of the clipped row");

    std::vector<float> in_place = x;
    const MatrixView same = view_of(in_place, DType::float32, rows, columns);
    run(same, same);
    check(in_place == expected, "in place");
}

void bad_rows_write_nothing() {
    std::vector<float> x = rows_of(5 * 300), out(x.size(), 7.0f);
    x[3 * 300 + 17] = INFINITY;
    std::string message;
    try {
        clip_and_noise(test_stream(Cipher::chacha20), view_of(x, DType::float32, 5, 300), 1.0, 0.6, Law::gaussian, true, view_of(out, DType::float32, 5, 300));
    } catch (const NonFiniteRow& error) {
        message = error.what();
    }
    check(message == "x must be finite, got inf in row 3", "row named: " + message);
    check(out == std::vector<float>(x.size(), 7.0f), "nothing written");
}

void generators_never_repeat() {
    Generator generator(Cipher::chacha20);
    std::vector<std::vector<std::uint64_t>> nonces(4);
    std::vector<std::thread> threads;
    for (auto& mine : nonces) {
        threads.emplace_back([&] { for (int i = 0; i < 1000; ++i) mine.push_back(generator.reserve().nonce); });
    }
    for (std::thread& thread : threads) thread.join();
    std::set<std::uint64_t> all;
    for (const auto& mine : nonces) all.insert(mine.begin(), mine.end());
    check(all.size() == 4000, "nonces of four threads are distinct");

    check(generator.reserve().nonce == 4000, "and leave none out");
    if (!test::kForks) return test::skip_without_fork("generators of children");
    Generator seeded(Generator::Key{}, Cipher::chacha20);
    const bool anew = in_child([&] { return generator.reserve().nonce == 0; }) == 0;
    check(anew, "a forked child draws a new key, whose nonces begin anew");
    const int refused = in_child([&] {
        try {
            seeded.reserve();
        } catch (const std::runtime_error&) {
            return true;
        }
        return false;
    });
    check(refused == 0, "a forked child cannot continue a seeded generator");
}

void every_call_has_fresh_bits() {
    Generator generator(Cipher::chacha20);
    Generator seeded(Generator::Key{1, 2, 3}, Cipher::chacha12);
    const KeyStream first = generator.reserve(), second = generator.reserve();
    for (std::size_t word = 0; word < 8; ++word) check(first.key[word] != second.key[word], "two calls share no word of their keys");
    const KeyStream here = seeded.reserve(), there = seeded.reserve();
    check(std::memcmp(here.key, there.key, sizeof here.key) == 0 && here.key[0] == 0x030201, "a seed's calls have the seed's key");
    check(second.nonce == 1 && there.nonce == 1 && there.cipher == Cipher::chacha12, "and nonces of their own");
}

void fills_reach_every_corner() {
    for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
        for (const std::size_t columns : {1u, 15u, 16u, 255u, 256u, 257u}) {
            for (const Law law : {Law::gaussian, Law::laplacian, Law::l2_laplace}) {
                std::vector<std::byte> memory(3 * columns * item_size(dtype) + 64, std::byte{0xA5});
                const auto item = static_cast<std::ptrdiff_t>(item_size(dtype));
                fill_noise(test_stream(Cipher::chacha8), law, 1.0, {memory.data(), dtype, 3, columns, item * static_cast<std::ptrdiff_t>(columns), item});
                bool guard = true;
                for (std::size_t i = 3 * columns * item_size(dtype); i < memory.size(); ++i) guard &= memory[i] == std::byte{0xA5};
                check(guard, "no write past the end");
            }
        }
    }
}

}  // namespace

int main() {
    block_known_answer();
    for (const std::string& name : available_backends()) {
        const Kernels& kernels = kernels_by_name(name);
        keystream_equals_blocks(kernels);
        level_one_equals_ladder(kernels);
        for (const Cipher cipher : kCiphers) half_words_equal_joined_words(kernels, cipher);
        sixteen_bit_conversions(kernels);
        whole_numbers_to_int8(kernels);
    }
    threads_do_not_change_bits();
    layouts_do_not_change_bits();
    bad_rows_write_nothing();
    generators_never_repeat();
    every_call_has_fresh_bits();
    fills_reach_every_corner();
    return hushvec::test::summary();
}
