// Sums of clipped rows without Python, small enough for the sanitizers: instruction sets, threads, splits, dtypes, refusals.
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.hpp"
#include "clip/clipped_sum_kernels.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/clipped_sum.hpp"
#include "hushvec/discrete.hpp"
#include "hushvec/dispatch.hpp"
#include "hushvec/threads.hpp"
#include "noise/combination.hpp"
#include "test_stream.hpp"

namespace {

using namespace hushvec;
using test::check;

constexpr double kClipNorm = 0.75;

struct Random {
    std::uint64_t state = 88172645463325252u;
    double operator()() {   // in [-1, 1)
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return static_cast<double>(static_cast<std::int64_t>(state)) * 0x1p-63;
    }
};

std::vector<float> rows_of(std::size_t rows, std::size_t columns, double size) {
    Random random;
    std::vector<float> x(rows * columns);
    for (float& element : x) element = static_cast<float>(size * (random() < 0 ? -1 : 1) * (1 + 0.1 * random()));
    return x;
}

MatrixView view_of(std::vector<float>& x, std::size_t rows, std::size_t columns) {
    return {reinterpret_cast<std::byte*>(x.data()), DType::float32, rows, columns, static_cast<std::ptrdiff_t>(columns * sizeof(float)), sizeof(float)};
}

MatrixView rows_from(const MatrixView& x, std::size_t first, std::size_t count) {
    MatrixView part = x;
    part.data = x.at(first, 0);
    part.rows = count;
    return part;
}

std::vector<float> released(ClippedSum& sum, const std::vector<std::size_t>& columns) {
    std::vector<float> all;
    for (std::size_t part = 0; part < columns.size(); ++part) {
        std::vector<float> out(columns[part]);
        sum.release(part, KeyStream{}, out.data());
        all.insert(all.end(), out.begin(), out.end());
    }
    sum.reset();
    return all;
}

bool refuses(const std::function<void()>& call, const std::string& text) {
    try {
        call();
    } catch (const std::invalid_argument& refusal) {
        check(refusal.what() == text, "text: " + std::string(refusal.what()));
        return true;
    }
    return false;
}

// ---- kernels ----

std::vector<double> as_doubles(const std::vector<std::uint32_t>& integers, std::size_t count) {
    std::vector<double> values;
    for (std::size_t j = 0; j < count; ++j) values.push_back(static_cast<double>(static_cast<std::int32_t>(integers[j])));
    return values;
}

void kernels_agree() {
    constexpr std::size_t rows = 13, columns = 8192 + 32 + 7;
    const std::vector<float> x = rows_of(rows, columns, 3.0);
    std::vector<const float*> pointers;
    std::vector<float> q;
    for (std::size_t row = 0; row < rows; ++row) {
        pointers.push_back(x.data() + row * columns);
        q.push_back(1e5f + 1e4f * static_cast<float>(row));
    }
    q[3] = 1e30f;   // elements above the limit

    // By the book, in doubles and integers.
    std::vector<double> expected(columns), limited_sums(columns);
    for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t j = 0; j < columns; ++j) {
            const float scaled = pointers[row][j] * q[row];
            if (row != 3) expected[j] += std::trunc(static_cast<double>(scaled));
            limited_sums[j] += std::trunc(std::fmin(std::fmax(static_cast<double>(scaled), -double{kElementLimit}), double{kElementLimit}));
        }
    }
    constexpr std::size_t whole = (columns + 15) / 16 * 16;
    std::vector<double> first_squares;
    for (const std::string& name : available_backends()) {
        const Kernels& kernels = kernels_by_name(name);
        std::vector<double> squares(rows), norms(rows), wide(whole, 5.0);
        std::vector<const float*> in_ball = pointers;
        std::vector<float> in_ball_q = q;
        in_ball.erase(in_ball.begin() + 3);
        in_ball_q.erase(in_ball_q.begin() + 3);
        std::vector<std::uint32_t> integers(whole), sums(whole, 5);
        for (const std::size_t bytes_ahead : {std::size_t{0}, rows * columns * sizeof(float)}) {   // what is fetched changes nothing
            integers.assign(whole, 0);
            kernels.add_rows({in_ball.data(), in_ball_q.data(), rows - 1, columns, integers.data(), nullptr, bytes_ahead});
            check(as_doubles(integers, columns) == expected, name + ": sums of rows");
        }

        integers.assign(whole, 0);
        kernels.add_rows({pointers.data(), q.data(), rows, columns, integers.data(), squares.data()});
        check(as_doubles(integers, columns) == limited_sums, name + ": limited sums of rows");
        for (const Put put : {Put::store, Put::add, Put::subtract}) {
            kernels.put_integers(integers.data(), whole, put, sums.data());
            kernels.put_integers_f64(integers.data(), whole, put, wide.data());
        }
        check(sums == integers, name + ": integers put");
        check(std::vector<double>(wide.begin(), wide.begin() + columns) == limited_sums, name + ": integers put as float64");
        if (first_squares.empty()) first_squares = squares;
        check(squares == first_squares, name + ": squares have the bits of " + available_backends()[0]);
        double exact = 0;
        for (std::size_t j = 0; j < columns; ++j) exact += std::pow(static_cast<double>(pointers[0][j] * q[0]), 2);
        check(std::fabs(squares[0] / exact - 1) < 257 * 0x1p-24, name + ": squares within their bound");

        for (const std::size_t length : {columns, std::size_t{8192}, std::size_t{31}, std::size_t{5}, std::size_t{0}}) {
            for (const std::size_t bytes_ahead : {std::size_t{0}, rows * columns * sizeof(float)}) {
                kernels.sums_of_squares(pointers.data(), rows, length, norms.data(), bytes_ahead);
                double halves[32], plain[32] = {};
                for (const std::size_t half : {0u, 1u}) kernels.half_of_squares(pointers[0], length, half, halves + 16 * half);
                for (std::size_t j = 0; j < length / 32 * 32; ++j) plain[j % 32] += double{pointers[0][j]} * double{pointers[0][j]};
                check(std::equal(plain, plain + 32, halves), name + ": the accumulators in two halves");
                for (std::size_t row = 0; row < rows; ++row) {
                    check(norms[row] == kernels.sum_of_squares(pointers[row], length), name + ": rows side by side have the norms of each alone");
                }
            }
        }

        std::vector<float> bad(pointers[0], pointers[0] + columns);
        bad[columns / 2] = std::numeric_limits<float>::quiet_NaN();
        const float* only[] = {bad.data()};
        kernels.add_rows({only, q.data(), 1, columns, integers.data(), squares.data()});
        check(!std::isfinite(squares[0]), name + ": NaN is seen");
    }
}

// ---- sums ----

void sums_do_not_depend_on_the_way() {
    constexpr std::size_t rows = 40, columns = 140001;
    std::vector<float> x = rows_of(rows, columns, 0.01);
    for (std::size_t j = 0; j < columns; ++j) x[5 * columns + j] = j == 77777 ? 3.0f : 0.0f;   // the sample misses it
    const MatrixView all = view_of(x, rows, columns);
    for (const Clipping clipping : {Clipping::exact, Clipping::estimated}) {
        const std::string name = clipping == Clipping::exact ? "exact: " : "estimated: ";
        ClippedSum sum({columns}, kClipNorm, 0.5, 1000, clipping);
        set_num_threads(1);
        sum.add({all});
        check(clipping == Clipping::exact || sum.corrected_rows() >= 1, name + "a wrong guess is corrected");
        const std::vector<float> expected = released(sum, {columns});
        check(sum.rows() == 0, name + "released sums are empty");

        for (const std::size_t cut : {std::size_t{1}, std::size_t{7}, std::size_t{39}}) {
            sum.add({rows_from(all, cut, rows - cut)});
            sum.add({rows_from(all, 0, cut)});
            check(released(sum, {columns}) == expected, name + "two calls of " + std::to_string(cut));
        }
        set_num_threads(3);
        sum.add({all});
        check(released(sum, {columns}) == expected, name + "three threads");

        std::vector<float> bad(x.begin(), x.begin() + 2 * columns);
        bad[columns + 70000] = std::numeric_limits<float>::infinity();
        sum.add({rows_from(all, 0, 3)});
        for (int i = 0; i < 2; ++i) {
            check(refuses([&] { sum.add({view_of(bad, 2, columns)}); }, "parts[0] must be finite, got inf in row 1"), name + "Inf");
        }
        sum.add({rows_from(all, 3, rows - 3)});
        check(released(sum, {columns}) == expected, name + "a refused call has changed nothing");
    }
    set_num_threads(0);
}

// int32 holds the sums of 64 rows; more of them go on in float64.
void many_rows() {
    constexpr std::size_t rows = 150;
    for (const std::size_t columns : {std::size_t{1000}, std::size_t{132000}}) {
        std::vector<float> x(rows * columns);
        for (std::size_t row = 0; row < rows; ++row) x[row * columns + 7] = 2.0f;   // all of the norm in one place
        const MatrixView all = view_of(x, rows, columns);
        for (const Clipping clipping : {Clipping::exact, Clipping::estimated}) {
            ClippedSum alone({columns}, 1.0, 0.0, 1, clipping);
            alone.add({rows_from(all, 0, 1)});
            const double one = alone.units(0)[7];
            check(one > 0x1p25 * (1 - 0x1p-14) && one < 0x1p25, "one row");
            for (const std::size_t cut : {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{65}, std::size_t{100}}) {
                ClippedSum sum({columns}, 1.0, 0.0, rows, clipping);
                if (cut > 0) sum.add({rows_from(all, 0, cut)});
                sum.add({rows_from(all, cut, rows - cut)});
                std::vector<double> expected(columns);
                expected[7] = rows * one;
                check(sum.units(0) == expected, std::to_string(columns) + " columns, " + std::to_string(cut) + " rows first");
            }
        }
    }
}

// Rows of a thread's share, and of the first that is not finite, do not depend on the number of threads.
void short_rows() {
    constexpr std::size_t rows = 600, columns = 5001;
    std::vector<float> x = rows_of(rows, columns, 0.01);
    const MatrixView all = view_of(x, rows, columns);
    ClippedSum sum({columns}, kClipNorm, 0.5, 1000, Clipping::exact);
    set_num_threads(1);
    sum.add({all});
    const std::vector<float> expected = released(sum, {columns});
    for (const std::size_t threads : {std::size_t{2}, std::size_t{5}}) {
        set_num_threads(threads);
        sum.add({all});
        check(released(sum, {columns}) == expected, "short rows on " + std::to_string(threads) + " threads");
        std::vector<float> bad = x;
        for (const std::size_t row : {rows - 1, std::size_t{333}, std::size_t{334}}) bad[row * columns + 9] = std::numeric_limits<float>::quiet_NaN();
        check(refuses([&] { sum.add({view_of(bad, rows, columns)}); }, "parts[0] must be finite, got nan in row 333"), "the first bad row");
        check(sum.rows() == 0, "nothing was added");
    }
    set_num_threads(0);
}

// The sum of a group is that of its rows alone, for any number of threads; a group may have no rows, one, or more than int32 holds.
void grouped_rows() {
    constexpr std::size_t rows = 700, columns = 1001, groups = 5;
    std::vector<float> x = rows_of(rows, columns, 0.3);
    const MatrixView all = view_of(x, rows, columns);
    std::vector<std::uint32_t> group_of(rows);
    for (std::size_t row = 0; row < rows; ++row) group_of[row] = row == 3 ? 1 : row % 7 < 3 ? 2
                                                                                            : 4;
    std::vector<std::vector<double>> expected;
    for (std::uint32_t group = 0; group < groups; ++group) {
        ClippedSum alone({columns}, kClipNorm, 0.0, rows, Clipping::exact);
        for (std::size_t row = 0; row < rows; ++row) {
            if (group_of[row] == group) alone.add({rows_from(all, row, 1)});
        }
        expected.push_back(alone.units(0));
    }
    for (const std::size_t threads : {std::size_t{1}, std::size_t{3}}) {
        set_num_threads(threads);
        for (const std::size_t cut : {std::size_t{0}, std::size_t{1}, std::size_t{333}}) {
            ClippedSum sum(std::vector<std::size_t>(groups, columns), kClipNorm, 0.0, rows, Clipping::exact);
            if (cut > 0) sum.add_grouped(rows_from(all, 0, cut), group_of.data());
            std::vector<float> bad = x;
            bad[500 * columns + 9] = std::numeric_limits<float>::infinity();
            check(refuses([&] { sum.add_grouped(rows_from(view_of(bad, rows, columns), cut, rows - cut), group_of.data()); },
                          "parts[0] must be finite, got inf in row " + std::to_string(500 - cut)),
                  "a grouped row with Inf");
            sum.add_grouped(rows_from(all, cut, rows - cut), group_of.data() + cut);
            for (std::size_t group = 0; group < groups; ++group) {
                check(sum.units(group) == expected[group], "group " + std::to_string(group) + " on " + std::to_string(threads) + " threads");
            }
        }
    }
    set_num_threads(0);
    ClippedSum sum({columns, columns}, kClipNorm, 0.0, rows, Clipping::exact);
    check(refuses([&] { sum.add_grouped(all, group_of.data()); }, "groups must be below 2, got 2"), "a group that is not there");
    ClippedSum narrow({columns, 7}, kClipNorm, 0.0, rows, Clipping::exact);
    check(refuses([&] { narrow.add_grouped(all, group_of.data()); }, "rows must have 7 columns, got 1001"), "parts of two lengths");
}

// A whole sum s comes out as g round(s unit / g + s Z): the noise is that of index i, whatever the sum, and large sums lose no unit.
void whole_sums() {
    constexpr std::size_t count = 1000;
    constexpr double unit = 0x1p-25, sigma = 3.0, grid = 0x1p-5;
    const KeyStream stream{};
    std::vector<std::int64_t> sums(count, 0);
    std::vector<double> noise(count), out(count);
    release_whole_sums(sums.data(), count, unit, sigma, stream, noise.data());
    const std::int64_t grids = std::int64_t{1} << 20;   // units
    for (std::size_t i = 0; i < count; ++i) sums[i] = grids * (static_cast<std::int64_t>(i) - 500) * (i % 2 == 0 ? 1 : 1 << 20);
    release_whole_sums(sums.data(), count, unit, sigma, stream, out.data());
    for (std::size_t i = 0; i < count; ++i) {
        check(out[i] - noise[i] == static_cast<double>(sums[i]) * unit, "whole grids pass through, sum " + std::to_string(i));
        check(std::rint(noise[i] / grid) == noise[i] / grid && std::fabs(noise[i]) < 6 * sigma, "noise is on the grid");
    }
    for (std::size_t i = 0; i < count; ++i) sums[i] += i % 2 == 0 ? grids / 2 - 1 : -grids / 2;   // parts of a grid are rounded with the noise
    std::vector<double> shifted(count);
    release_whole_sums(sums.data(), count, unit, sigma, stream, shifted.data());
    std::size_t moved = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const double step = (shifted[i] - out[i]) / grid;
        check(step == 0 || step == (i % 2 == 0 ? 1 : -1), "a part of a grid moves the result by one at most");
        moved += step != 0;
    }
    check(std::fabs(static_cast<double>(moved) - count / 2.0) < 6 * std::sqrt(count / 4.0), "half of a grid moves half of the results");
    check(refuses([&] { release_whole_sums(sums.data(), count, 1.0, sigma, stream, out.data()); },
                  "sigma must be in [2^6, 2^59] units of the sum, got 3.000000"),
          "units that are not finer than the grid");
}

// A sample's noise is a function of its index: what is released of a part begins a longer part's release, however groups are taken
// together, at the part's end or where a sum is large.
void releases_begin_alike() {
    constexpr std::size_t most = 3000, filled = 255;
    for (const std::size_t rows : {std::size_t{1}, std::size_t{3000}}) {
        std::vector<float> x(rows * most);
        for (std::size_t row = 0; row < rows; ++row) {
            for (std::size_t j = 0; j < filled; ++j) x[row * most + j] = static_cast<float>(j);
        }
        std::vector<float> longest;
        for (const std::size_t columns : {most, filled, std::size_t{256}, std::size_t{1000}, std::size_t{1024}, std::size_t{1025}, std::size_t{2500}}) {
            MatrixView part = view_of(x, rows, most);
            part.columns = columns;
            ClippedSum sum({columns}, 1.0, 0x1p-12, rows, Clipping::exact);
            sum.add({part});
            const std::vector<float> noisy = released(sum, {columns});
            if (longest.empty()) longest = noisy;
            check(std::equal(noisy.begin(), noisy.end(), longest.begin()), std::to_string(rows) + " rows of " + std::to_string(columns) + " columns");
        }
    }
}

void parts_and_large_sums() {
    // Rows that all point one way: their sum is far above what exact rounding takes at once.
    constexpr std::size_t rows = 3000;
    std::vector<float> x(rows * 2, 5.0f), y(rows, 0.0f);
    const std::vector<std::size_t> columns = {2, 1};
    ClippedSum sum(columns, 1.0, 0x1p-12, rows, Clipping::exact);
    sum.add({view_of(x, rows, 2), view_of(y, rows, 1)});
    const std::vector<float> noisy = released(sum, columns);
    check(std::fabs(noisy[0] / (rows * std::sqrt(0.5)) - 1) < 1e-5, "a large sum");
    check(std::fabs(noisy[2]) < 6 * 0x1p-12, "a sum of zeros");

    ClippedSum quiet(columns, 1.0, 0.0, rows, Clipping::exact);
    quiet.add({view_of(x, rows, 2), view_of(y, rows, 1)});
    const std::vector<float> clean = released(quiet, columns);
    check(std::fabs(clean[0] / (rows * std::sqrt(0.5)) - 1) < 2e-6 && clean[2] == 0, "a sum without noise");
    check(released(quiet, columns) == std::vector<float>(3), "an empty sum");
}

void refusals() {
    std::vector<float> x(20, 1.0f);
    ClippedSum sum({5, 5}, 1.0, 1.0, 3, Clipping::exact);
    const MatrixView two = view_of(x, 2, 5), three = view_of(x, 3, 5), four = view_of(x, 4, 5);
    check(refuses([&] { sum.add({two}); }, "parts must have 2 arrays, got 1"), "number of parts");
    check(refuses([&] { sum.add({two, three}); }, "parts[1] must have shape (2, 5), got (3, 5)"), "rows differ");
    check(refuses([&] { sum.add({four, four}); }, "rows of the sum must be <= most_rows = 3, got 0 + 4"), "too many rows");
    check(refuses([&] { ClippedSum({}, 1.0, 1.0, 1, Clipping::exact); }, "shapes must name at least one part, got none"), "no parts");
    check(refuses([&] { ClippedSum({1}, 1.0, 1.0, 0, Clipping::exact); }, "most_rows must be in [1, 2^27], got 0"), "most_rows");
    check(refuses([&] { ClippedSum({1}, -1.0, 1.0, 1, Clipping::exact); }, "clip_norm must be > 0, got -1"), "clip_norm");
}

void poisson_samples() {
    KeyStream stream;
    stream.key[0] = 5;
    constexpr std::size_t count = 100000;
    const std::vector<std::int64_t> kept = poisson_sample(stream, count, std::uint64_t{1} << 62);
    std::size_t next = 0;
    bool agrees = true;
    const auto uniform_of = [&](std::size_t i) {   // docs/format.md section 11, one word at a time
        const std::uint64_t block = i / kGroupSamples * kGroupBlocks + i % kGroupBlocks;
        const Block high = chacha_block(stream, block_counter(25, block)), low = chacha_block(stream, block_counter(26, block));
        const std::size_t word = i % kGroupSamples / kGroupBlocks;
        return (std::uint64_t{high[word]} << 32) | low[word];
    };
    for (std::size_t i = 0; i < 3000; ++i) {
        const bool keep = uniform_of(i) < std::uint64_t{1} << 62;
        agrees &= keep == (next < kept.size() && kept[next] == static_cast<std::int64_t>(i));
        next += keep;
    }
    check(agrees, "the sample is that of the key stream");
    check(std::fabs(static_cast<double>(kept.size()) - count / 4.0) < 6 * std::sqrt(count * 0.1875), "its size");
    check(poisson_sample(stream, count, 0).empty(), "nothing at probability 0");
    for (const std::size_t i : {std::size_t{0}, std::size_t{777}, count - 1}) {   // the lower half of its uniform decides
        const std::vector<std::int64_t> below = poisson_sample(stream, count, uniform_of(i)), with = poisson_sample(stream, count, uniform_of(i) + 1);
        const auto index = static_cast<std::int64_t>(i);
        check(!std::binary_search(below.begin(), below.end(), index) && std::binary_search(with.begin(), with.end(), index), "the last bit of a threshold");
    }
}

// Every set of instructions gives the integer of the ladder's last level, next to half-integers too, where float32 without its bound
// does not.
void combinations() {
    constexpr std::size_t groups = 4, samples = groups * kGroupSamples;
    const double coefficients[] = {1.0, -0.5, -0.125, -0.0625, -0.0390625};
    std::vector<KeyStream> streams;
    std::vector<ScaledStream> terms;
    for (std::uint64_t i = 0; i < 5; ++i) {
        streams.push_back(test::test_stream(i % 2 == 0 ? Cipher::chacha20 : Cipher::chacha8));
        streams.back().nonce += i;
    }
    for (std::size_t i = 0; i < 5; ++i) terms.push_back({&streams[i], 127.5 * coefficients[i]});
    Random random;
    std::vector<double> x(samples);
    std::size_t wrong_without_bound = 0;
    for (std::uint64_t round = 0; round < 100; ++round) {
        for (double& element : x) element = 1e6 * random();
        const double one[kRunScales] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
        std::vector<float> noise(samples), reach(samples), first, y(samples);
        const auto run = [&](const Kernels& kernels, ErrorBound bound) {
            for (std::size_t i = 0; i < terms.size(); ++i) {
                kernels.add_normals(streams[i], {round * groups, groups, static_cast<float>(terms[i].s), i > 0, noise.data(), reach.data()});
            }
            kernels.round_combination({round * groups, groups, x.data(), one, noise.data(), reach.data(), terms, 1.0f, y.data()}, bound);
        };
        if (round % 10 == 0) {
            run(active_kernels(), {});
            for (std::size_t i = 0; i < samples; ++i) x[i] = std::rint(noise[i]) + 0.5 - double{noise[i]} + 1e-5 * random();
        }
        for (const std::string& name : available_backends()) {
            const Kernels& kernels = kernels_by_name(name);
            run(kernels, kernels.gaussian_bound);
            if (first.empty()) first = y;
            check(y == first, name + " gives the integers of the others");
            run(kernels, {0, 0, -static_cast<float>(terms.size() + 1) * 0x1p-24f});
            for (std::size_t i = 0; i < samples; ++i) wrong_without_bound += y[i] != first[i];
        }
        const std::size_t i = round * 37 % samples;
        const std::uint64_t pair = (round * groups + i / kGroupSamples) * kGroupPairs + i % kGroupPairs;
        for (const int level : {2, 3, 4}) {
            const std::int32_t n = settle_combination(terms, pair, i % kGroupSamples >= kGroupPairs, x[i], level);
            check(n == static_cast<std::int32_t>(first[i]), "level " + std::to_string(level));
        }
    }
    check(wrong_without_bound > 100, "float32 alone rounds some of them otherwise");
}

// Parts of rows multiplied by factors and then clipped: the sum of rows so multiplied, in whatever number of threads and calls.
void scaled_rows() {
    constexpr std::size_t rows = 70;
    const std::vector<std::size_t> columns = {9000, 3};
    std::vector<float> first = rows_of(rows, columns[0], 0.01), second = rows_of(rows, columns[1], 0.5);
    const std::vector<MatrixView> parts = {view_of(first, rows, columns[0]), view_of(second, rows, columns[1])};
    const std::vector<double> squares = squares_of_parts(parts);
    std::vector<double> factors(2 * rows);
    for (std::size_t i = 0; i < factors.size(); ++i) factors[i] = std::ldexp(1.0, static_cast<int>(i % 7) - 3);   // products are exact
    std::vector<float> scaled[] = {first, second};
    for (std::size_t part = 0; part < 2; ++part) {
        for (std::size_t j = 0; j < scaled[part].size(); ++j) scaled[part][j] *= static_cast<float>(factors[part * rows + j / columns[part]]);
    }
    ClippedSum plain(columns, kClipNorm, 0, 1000, Clipping::exact), one(columns, kClipNorm, 0, 1000, Clipping::exact);
    plain.add({view_of(scaled[0], rows, columns[0]), view_of(scaled[1], rows, columns[1])});
    const std::vector<float> expected = released(plain, columns);
    for (const std::size_t threads : {1, 3}) {
        set_num_threads(threads);
        check(squares_of_parts(parts) == squares, "squares by part do not depend on threads");
        one.add_scaled(parts, squares, factors);
        const std::vector<float> sums = released(one, columns);
        double furthest = 0;
        for (std::size_t j = 0; j < sums.size(); ++j) furthest = std::fmax(furthest, std::fabs(double{sums[j]} - double{expected[j]}));
        check(furthest <= rows * 2 * sum_unit(kClipNorm), "rows multiplied by the core: " + std::to_string(furthest));
    }
    set_num_threads(1);
    check(refuses([&] { one.add_scaled(parts, squares, {1.0}); }, "squares and factors must have one number for each part of each row"), "factors");
    factors[3] = -1.0;
    check(refuses([&] { one.add_scaled(parts, squares, factors); }, "factors must be >= 0, got -1.000000"), "a negative factor");
    check(one.rows() == 0, "what was refused");
    second[4] = std::numeric_limits<float>::infinity();
    check(refuses([&] { squares_of_parts(parts); }, "parts[1] must be finite, got inf in row 1"), "not finite");
}

}  // namespace

int main() {
    kernels_agree();
    combinations();
    sums_do_not_depend_on_the_way();
    many_rows();
    short_rows();
    grouped_rows();
    whole_sums();
    releases_begin_alike();
    parts_and_large_sums();
    scaled_rows();
    refusals();
    poisson_samples();
    return test::summary();
}
