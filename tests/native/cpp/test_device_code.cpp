// The CUDA kernels' bodies run on the host, thread by thread, and held against the CPU core: the same bits in the exact grade.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "check.hpp"
#include "device/combination_body.hpp"
#include "device/fill_body.hpp"
#include "device/half_rows_body.hpp"
#include "device/l2_laplace_body.hpp"
#include "device/ladder_body.hpp"
#include "device/level_one.hpp"
#include "device/level_zero.hpp"
#include "device/refine_body.hpp"
#include "device/settle_body.hpp"
#include "device/stream_body.hpp"
#include "device/sum_body.hpp"
#include "device_rows.hpp"
#include "hushvec/clip.hpp"
#include "hushvec/clipped_sum.hpp"
#include "hushvec/noise.hpp"
#include "noise/joined_words.hpp"
#include "noise/word_kernels.hpp"
#include "tile_shape.hpp"

namespace {

using namespace hushvec;
using namespace hushvec::cuda;
using namespace hushvec::test;

constexpr std::size_t kSharedBytes = 75 * 1024;   // for a tile, as on sm_90

// A workspace and what reads it.
struct Device {
    Report report = {kNoRow, 0, 0};
    std::uint32_t listed_pairs = 0;
    std::vector<OpenPair> pairs = std::vector<OpenPair>(100000);
    std::vector<OpenSample> samples = std::vector<OpenSample>(kOpenCapacity);

    OpenPairs open_pairs() { return {pairs.data(), static_cast<std::uint32_t>(pairs.size()), &listed_pairs, &report.overflow}; }
    OpenSamples open_samples() { return {&report, samples.data()}; }
};

// An output between two stretches that nothing may write to.
template <class Stored>
class Guarded {
public:
    explicit Guarded(std::size_t count) : memory_(count + 2 * kGuard) { std::memset(memory_.data(), kMark, memory_.size() * sizeof(Stored)); }
    Stored* data() { return memory_.data() + kGuard; }
    std::size_t size() const { return memory_.size() - 2 * kGuard; }
    std::vector<Stored> inside() const { return {memory_.begin() + kGuard, memory_.end() - kGuard}; }
    bool intact() const { return marked(memory_.data()) && marked(memory_.data() + kGuard + size()); }

private:
    static constexpr int kMark = 0xA5;
    static constexpr std::ptrdiff_t kGuard = 512;   // no phantom sample lies further away
    static bool marked(const Stored* guard) {
        const auto* bytes = reinterpret_cast<const unsigned char*>(guard);
        return std::all_of(bytes, bytes + kGuard * static_cast<std::ptrdiff_t>(sizeof(Stored)), [](unsigned char byte) { return byte == kMark; });
    }
    std::vector<Stored> memory_;
};

template <class Stored, class Work>
void run_tiles(const TileShape<Work::kSpan>& shape, const std::vector<Stored>& x, Guarded<Stored>& out, double unit, const Work& work,
               Device& device) {
    const RowsBody<Stored, Work> body = {x.data(), out.data(), shape, kClipNorm, unit, work, &device.report};
    // Shared memory is not set up by anybody: what a tile has not written is NaN in every type here.
    std::vector<double> dynamic(TileMemory<Stored>::template bytes<Work>(shape) / sizeof(double) + 2);
    const TileMemory<Stored> memory(dynamic.data(), shape);
    for (std::size_t block = 0; block < shape.tiles(); ++block) {
        std::memset(dynamic.data(), 0xFF, dynamic.size() * sizeof(double));
        body.run(block, memory, HostTeam{Work::kThreads});
    }
}

template <class Stored>
std::vector<Wide<Stored>> run_row_scales(const std::vector<Stored>& x, std::size_t rows, std::size_t columns, double unit, Device& device) {
    std::vector<Wide<Stored>> scales(rows);
    const RowScalesBody<Stored> body = {x.data(), rows, columns, kClipNorm, unit, scales.data(), &device.report};
    for (std::size_t block = 0; block * kStreamWarps < rows; ++block) body.run(block, HostTeam{kStreamThreads});
    return scales;
}

// Of version 3.
template <class Noise>
inline constexpr bool kIsHalf = false;
template <class Value>
inline constexpr bool kIsHalf<HalfGaussian<Value>> = true;
template <class Value>
inline constexpr bool kIsHalf<HalfLaplace<Value>> = true;

template <class Stored, class Noise>
void run_stream(const CallStream& source, const Noise& noise, const std::vector<Stored>& x, Guarded<Stored>& out, std::size_t rows,
                std::size_t columns, double unit, Device& device) {
    const auto scales = run_row_scales(x, rows, columns, unit, device);
    const StreamedRows<Stored> streamed = {x.data(), out.data(), rows, columns, scales.data()};
    const auto run = [](const auto& body) {
        for (std::size_t block = 0; block < 3; ++block) body.run(block, 3, HostTeam{kStreamThreads});
    };
    if constexpr (kIsHalf<Noise>) run(StreamHalfNoiseBody<Stored, Noise>{source, noise, device.open_pairs(), streamed});
    else run(StreamNoiseBody<Stored, Noise>{source, noise, streamed});
}

// Whether nothing of the noise is left.
bool is_wiped(const Device& device) {
    const auto zeros = [](const auto& list) {
        const auto* const bytes = reinterpret_cast<const unsigned char*>(list.data());
        return std::all_of(bytes, bytes + list.size() * sizeof list[0], [](unsigned char byte) { return byte == 0; });
    };
    return zeros(device.pairs) && zeros(device.samples);
}

// What follows a kernel in the exact grade: the ladder on what it left open, and the multiprecision level on what that did.
template <class Outputs>
void run_ladder(const Outputs& outputs, bool gaussian, float s, Device& device) {
    const LadderBody<Outputs> ladder = {outputs, gaussian, s, device.open_pairs(), device.open_samples()};
    for (unsigned block = 0; block < 3; ++block) ladder.run(block, 3, HostTeam{kLadderThreads});
    if constexpr (std::is_same_v<Outputs, OneOutput>) SettleBody{outputs.source, gaussian, s, device.open_samples(), outputs.out}.run();
    check(is_wiped(device), "the lists of open pairs and samples are wiped");
}

void run_ladder(const CallStream& source, bool gaussian, float s, Device& device, const SettledOutput& out) {
    run_ladder(OneOutput{source, out}, gaussian, s, device);
}

template <class Stored, class Noise>
void settle_rest(const CallStream&, const Noise&, Device&, Guarded<Stored>&) {}
template <class Stored, class Value>
void settle_rest(const CallStream& source, const ExactGaussian<Value>& noise, Device& device, Guarded<Stored>& out) {
    run_ladder(source, true, noise.level.s, device, {out.data(), kDType<Stored>, out.size(), noise.grid});
}
template <class Stored, class Value>
void settle_rest(const CallStream& source, const ExactLaplace<Value>& noise, Device& device, Guarded<Stored>& out) {
    run_ladder(source, false, noise.level.s, device, {out.data(), kDType<Stored>, out.size(), noise.grid});
}

// What follows a kernel of version 3.
template <class Outputs>
void run_refinement(const Outputs& outputs, bool gaussian, float s, Device& device) {
    const RefineBody<Outputs> body({outputs, gaussian, s, device.open_pairs(), device.open_samples()}, s);
    for (unsigned block = 0; block < 3; ++block) body.run(block, 3, HostTeam{kLadderThreads});
    if constexpr (std::is_same_v<Outputs, OneOutput>) SettleBody{outputs.source, gaussian, s, device.open_samples(), outputs.out}.run();
    check(is_wiped(device), "the lists of version 3 are wiped");
}
template <class Stored, class Value>
void settle_rest(const CallStream& source, const HalfGaussian<Value>& noise, Device& device, Guarded<Stored>& out) {
    run_refinement(OneOutput{source, {out.data(), kDType<Stored>, out.size(), noise.grid}}, true, noise.level.s, device);
}
template <class Stored, class Value>
void settle_rest(const CallStream& source, const HalfLaplace<Value>& noise, Device& device, Guarded<Stored>& out) {
    run_refinement(OneOutput{source, {out.data(), kDType<Stored>, out.size(), noise.grid}}, false, noise.level.s, device);
}

template <class Stored, class Noise>
std::vector<Stored> half_noised(const Noise& noise, const std::vector<Stored>& x, std::size_t rows, std::size_t columns, double unit,
                                bool tiles, Cipher cipher, Device& device) {
    const CallStream source = {test_stream(cipher)};
    Guarded<Stored> out(x.size());
    std::optional<TileShape<TilesOfHalfWords::kSpan>> shape;
    if constexpr (sizeof(Stored) <= sizeof(float)) {
        if (tiles) {
            shape = tile_shape<Stored, TilesOfHalfWords>(rows, columns, kSharedBytes);
            check(shape.has_value(), "rows of " + std::to_string(columns) + " go by tiles");
        }
        if (shape && columns % kGroupSamples == 0 && shape->whole_groups()) {
            run_tiles<Stored>(*shape, x, out, unit, HalfNoiseWork<Stored, Noise, true>{source, noise, device.open_pairs()}, device);
        } else if (shape) {
            run_tiles<Stored>(*shape, x, out, unit, HalfNoiseWork<Stored, Noise, false>{source, noise, device.open_pairs()}, device);
        }
    }
    if (!shape) run_stream(source, noise, x, out, rows, columns, unit, device);
    settle_rest(source, noise, device, out);
    check(out.intact(), "nothing is written outside, " + std::to_string(rows) + " x " + std::to_string(columns));
    return out.inside();
}

// Exact noise of version 3.
template <class Stored>
void half_words_equal_the_core(std::size_t rows, std::size_t columns, bool tiles, Cipher cipher) {
    using Value = Wide<Stored>;
    const ExactGrid grid = exact_grid(kSigma, kClipNorm, true);
    const float s = grid.sigma / grid.grid;
    KeyStream stream = test_stream(cipher);
    stream.half_words = true;
    for (const Law law : {Law::gaussian, Law::laplacian}) {
        std::vector<Stored> x = rows_of<Stored>(rows, columns), expected(x.size());
        clip_and_noise(stream, view_of(x, rows, columns), kClipNorm, kSigma, law, true, view_of(expected, rows, columns));
        Device device;
        const auto got_from = [&](const auto& noise) { return half_noised(noise, x, rows, columns, grid.grid, tiles, cipher, device); };
        const std::vector<Stored> got = law == Law::gaussian ? got_from(HalfGaussian<Value>(s, grid.grid))
                                                             : got_from(HalfLaplace<Value>(s, grid.grid));
        const std::string what = std::string("version 3, ") + (law == Law::gaussian ? "Gaussian " : "Laplace ") + name_of(kDType<Stored>) +
                                 " " + std::to_string(rows) + " x " + std::to_string(columns) + (tiles ? " by tiles" : " streamed");
        check(same_bits(got, expected), "exact, " + what);
        const Report& report = device.report;
        check(report.first_bad_row == kNoRow && report.overflow == 0 && report.open_samples == 0, "report of " + what);
        // Level 0 leaves 4 pairs in 1,000 open at s = 9.6 (Laplace 5.5), level 1, which tiles ask themselves, 2 in 10,000.
        const double share = device.listed_pairs / (static_cast<double>(x.size()) / 2);
        const bool as_expected = tiles ? share < 0.001 : share > 0.002 && share < 0.012;
        if (x.size() > 20000) check(as_expected, std::to_string(share) + " of pairs are listed, " + what);
    }
}

template <class Stored, class Noise>
std::vector<Stored> noised(const Noise& noise, const std::vector<Stored>& x, std::size_t rows, std::size_t columns, double unit, bool tiles,
                           Device& device) {
    const CallStream source = {test_stream(Cipher::chacha12)};
    Guarded<Stored> out(x.size());
    std::optional<TileShape<>> shape;
    if constexpr (sizeof(Stored) <= sizeof(float)) {
        if (tiles) {
            shape = tile_shape<Stored>(rows, columns, kSharedBytes);
            check(shape.has_value(), "rows of " + std::to_string(columns) + " go by tiles");
        }
        if (shape && columns % kGroupSamples == 0) {
            run_tiles<Stored>(*shape, x, out, unit, NoiseWork<Stored, Noise, true>{source, noise}, device);
        } else if (shape) {
            run_tiles<Stored>(*shape, x, out, unit, NoiseWork<Stored, Noise, false>{source, noise}, device);
        }
    }
    if (!shape) run_stream(source, noise, x, out, rows, columns, unit, device);
    settle_rest(source, noise, device, out);
    check(out.intact(), "nothing is written outside, " + std::to_string(rows) + " x " + std::to_string(columns));
    return out.inside();
}

template <class Stored>
void exact_grade_equals_the_core(std::size_t rows, std::size_t columns, bool tiles) {
    using Value = Wide<Stored>;
    const ExactGrid grid = exact_grid(kSigma, kClipNorm);
    const float s = grid.sigma / grid.grid;
    for (const Law law : {Law::gaussian, Law::laplacian}) {
        std::vector<Stored> x = rows_of<Stored>(rows, columns), expected(x.size());
        clip_and_noise(test_stream(Cipher::chacha12), view_of(x, rows, columns), kClipNorm, kSigma, law, true, view_of(expected, rows, columns));
        Device device;
        const bool gaussian = law == Law::gaussian;
        const std::vector<Stored> got =
            gaussian ? noised(ExactGaussian<Value>{GaussianLevelOne(s), grid.grid, device.open_pairs()}, x, rows, columns, grid.grid, tiles, device)
                     : noised(ExactLaplace<Value>{LaplaceLevelOne(s), grid.grid, device.open_pairs()}, x, rows, columns,
                              grid.grid, tiles, device);
        const std::string what = std::string(gaussian ? "Gaussian" : "Laplace") + " " + name_of(kDType<Stored>) + " " + std::to_string(rows) +
                                 " x " + std::to_string(columns) + (tiles ? " by tiles" : " streamed");
        check(same_bits(got, expected), "exact " + what);
        // 4 samples in 10^13 stay open: one here would be a phantom, computed from memory that nobody wrote.
        check(device.report.first_bad_row == kNoRow && device.report.overflow == 0 && device.report.open_samples == 0, "report of " + what);
    }
}

// The float grade may differ in last places.
template <class Stored>
void float_grade_is_close_to_the_core(std::size_t rows, std::size_t columns, bool tiles) {
    using Value = Wide<Stored>;
    for (const Law law : {Law::gaussian, Law::laplacian}) {
        std::vector<Stored> x = rows_of<Stored>(rows, columns), expected(x.size());
        clip_and_noise(test_stream(Cipher::chacha12), view_of(x, rows, columns), kClipNorm, kSigma, law, false, view_of(expected, rows, columns));
        Device device;
        const auto scale = static_cast<Value>(kSigma);
        const std::vector<Stored> got = law == Law::gaussian ? noised(FloatGaussian<Value>{scale}, x, rows, columns, 1.0, tiles, device)
                                                             : noised(FloatLaplace<Value>{scale}, x, rows, columns, 1.0, tiles, device);
        double worst = 0;
        for (std::size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::fabs(double{widened(got[i])} - double{widened(expected[i])}));
        const double bound = sizeof(Stored) == 8 ? 1e-14 : (sizeof(Stored) == 4 ? 1e-6 : 8e-3);
        check(worst <= bound, std::string("float grade, ") + name_of(kDType<Stored>) + " d = " + std::to_string(columns));
    }
}

DeviceStream state_of(const KeyStream& stream) {
    DeviceStream state = {{}, stream.nonce, static_cast<std::uint64_t>(rounds_of(stream.cipher))};
    std::memcpy(state.key, stream.key, sizeof state.key);
    return state;
}

void a_state_is_the_same_stream() {
    for (const Cipher cipher : {Cipher::chacha8, Cipher::chacha12, Cipher::chacha20}) {
        const KeyStream stream = test_stream(cipher);
        DeviceStream state = state_of(stream);
        std::uint64_t nonce = 0;
        take_nonce(&state, &nonce);
        const KeyStream read = stream_of(CallStream{KeyStream{}, &state, &nonce});
        check(std::memcmp(read.key, stream.key, sizeof read.key) == 0 && read.nonce == stream.nonce && read.cipher == stream.cipher, "a stream in a state");
        check(state.nonce == stream.nonce + 1, "its next call has the next nonce");
    }
}

// A state that something wrote over still ends, and is no weaker.
void rounds_that_chacha_does_not_have() {
    for (const std::uint64_t rounds : {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{256}, ~std::uint64_t{0}}) {
        DeviceStream state = state_of(test_stream(Cipher::chacha8));
        state.rounds = rounds;
        const std::uint64_t nonce = 0;
        check(stream_of(CallStream{KeyStream{}, &state, &nonce}).cipher == Cipher::chacha20, "20 rounds where the state says " + std::to_string(rounds));
    }
}

// Two graphs with one state replay at once: whatever the order of their kernels, each draws from a nonce of its own.
void calls_that_overlap_draw_apart() {
    constexpr std::size_t kCount = 300;
    const KeyStream stream = test_stream(Cipher::chacha12);
    DeviceStream state = state_of(stream);
    struct Call {
        std::uint64_t nonce = ~std::uint64_t{0};
        std::vector<float> out = std::vector<float>(kCount);
    } calls[2];
    const auto fill = [](const CallStream& source, std::vector<float>& out) {
        FillBody<float, FloatGaussian<float>>{source, {1.0f}, out.data(), kCount}.run(0, 1, HostTeam{kFillThreads});
    };
    for (Call& call : calls) take_nonce(&state, &call.nonce);   // both have begun before either goes on
    for (Call& call : {std::ref(calls[1]), std::ref(calls[0])}) fill({KeyStream{}, &state, &call.nonce}, call.out);
    for (std::size_t i = 0; i < 2; ++i) {
        KeyStream expected_stream = stream;
        expected_stream.nonce += i;
        std::vector<float> expected(kCount);
        fill({expected_stream}, expected);
        check(same_bits(calls[i].out, expected), "call " + std::to_string(i) + " of two that overlap has its own nonce");
    }

    // On threads, as the atomic step is what keeps them apart.
    constexpr std::size_t kThreads = 4, kTurns = 20000;
    std::vector<std::uint64_t> taken(kThreads * kTurns);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            for (std::size_t i = 0; i < kTurns; ++i) take_nonce(&state, &taken[t * kTurns + i]);
        });
    }
    for (std::thread& thread : threads) thread.join();
    std::sort(taken.begin(), taken.end());
    check(std::adjacent_find(taken.begin(), taken.end()) == taken.end(), "no two threads take one nonce");
}

template <class Stored>
void clip_equals_the_core(std::size_t rows, std::size_t columns) {
    std::vector<Stored> x = rows_of<Stored>(rows, columns), expected(x.size()), streamed(x.size());
    hushvec::clip(view_of(x, rows, columns), kClipNorm, view_of(expected, rows, columns));
    Device device;
    const std::string what = std::string(name_of(kDType<Stored>)) + " d = " + std::to_string(columns);
    if (const auto shape = tile_shape<Stored>(rows, columns, kSharedBytes)) {
        Guarded<Stored> tiled(x.size());
        run_tiles<Stored>(*shape, x, tiled, 1.0, ClipWork<Stored>{}, device);
        check(same_bits(tiled.inside(), expected) && tiled.intact(), "clip by tiles, " + what);
    }
    const auto scales = run_row_scales(x, rows, columns, 1.0, device);
    const StreamClipBody<Stored> body = {x.data(), streamed.data(), rows, columns, scales.data()};
    for (std::size_t block = 0; block < 2; ++block) body.run(block, 2, HostTeam{kStreamThreads});
    check(same_bits(streamed, expected), "clip streamed, " + what);
}

// A row with NaN or Inf is reported and released as zeros.
void bad_rows_become_zeros() {
    constexpr std::size_t rows = 40, columns = 384;
    const ExactGrid grid = exact_grid(kSigma, kClipNorm);
    const GaussianLevelOne level(grid.sigma / grid.grid);
    std::vector<float> zeroed = rows_of<float>(rows, columns), bad = zeroed, expected(bad.size());
    for (const std::size_t row : {std::size_t{9}, std::size_t{31}}) {
        std::fill_n(zeroed.begin() + static_cast<std::ptrdiff_t>(row * columns), columns, 0.0f);
        bad[row * columns + 5] = row == 9 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
    }
    clip_and_noise(test_stream(Cipher::chacha12), view_of(zeroed, rows, columns), kClipNorm, kSigma, Law::gaussian, true, view_of(expected, rows, columns));
    for (const bool tiles : {true, false}) {
        Device device;
        const auto got = noised(ExactGaussian<float>{level, grid.grid, device.open_pairs()}, bad, rows, columns, grid.grid, tiles, device);
        check(same_bits(got, expected), "bad rows are released as zeros");
        check(device.report.first_bad_row == 9, "the first bad row is reported");
    }
}

// float64 rows whose squares overflow take another way to their scale.
void huge_float64_rows() {
    constexpr std::size_t rows = 3, columns = 50;
    std::vector<double> x = rows_of<double>(rows, columns), expected(x.size());
    for (double& value : x) value *= 0x1p1000;
    hushvec::clip(view_of(x, rows, columns), kClipNorm, view_of(expected, rows, columns));
    Device device;
    std::vector<double> got(x.size());
    const auto scales = run_row_scales(x, rows, columns, 1.0, device);
    StreamClipBody<double>{x.data(), got.data(), rows, columns, scales.data()}.run(0, 1, HostTeam{kStreamThreads});
    check(same_bits(got, expected), "float64 rows whose squares overflow");
}

template <class Stored>
void fills_equal_the_core() {
    using Value = Wide<Stored>;
    for (const std::size_t count : {std::size_t{1}, std::size_t{255}, std::size_t{256}, std::size_t{257}, std::size_t{70001}}) {
        for (const Law law : {Law::gaussian, Law::laplacian}) {
            std::vector<Stored> expected(count), got(count);
            hushvec::fill_noise(test_stream(Cipher::chacha20), law, 2.5, view_of(expected, 1, count));
            const CallStream source = {test_stream(Cipher::chacha20)};
            for (unsigned block = 0; block < 2; ++block) {
                if (law == Law::gaussian) {
                    FillBody<Stored, FloatGaussian<Value>>{source, {Value{2.5}}, got.data(), count}.run(block, 2, HostTeam{kFillThreads});
                } else {
                    FillBody<Stored, FloatLaplace<Value>>{source, {Value{2.5}}, got.data(), count}.run(block, 2, HostTeam{kFillThreads});
                }
            }
            double worst = 0;   // relative to 1 + |z|: fills may differ in their last places
            for (std::size_t i = 0; i < count; ++i) {
                const double z = widened(expected[i]);
                worst = std::max(worst, std::fabs(widened(got[i]) - z) / (1 + std::fabs(z)));
            }
            const double bound = sizeof(Stored) == 8 ? 1e-14 : (sizeof(Stored) == 4 ? 1e-6 : (kDType<Stored> == DType::float16 ? 1e-3 : 8e-3));
            check(worst <= bound, std::string("fill ") + name_of(kDType<Stored>) + " of " + std::to_string(count) + ", off by " + std::to_string(worst));
        }
    }
}

// The kernels' L2-Laplace rows, of noise alone where x is empty. What no kernel wrote is NaN.
template <class Stored>
std::vector<Stored> l2_laplace_rows(const std::vector<Stored>& x, std::size_t rows, std::size_t columns, double scale, Device& device) {
    using Value = Wide<Stored>;
    const CallStream source = {test_stream(Cipher::chacha12)};
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    std::vector<Value> normals(rows * columns, static_cast<Value>(kNan)), scales(rows, static_cast<Value>(kNan));
    std::vector<double> factors(rows, kNan);
    if (!x.empty()) scales = run_row_scales(x, rows, columns, 1.0, device);
    for (unsigned block = 0; block < 2; ++block) {
        FillBody<Value, FloatGaussian<Value>>{source, {Value{1}}, normals.data(), normals.size()}.run(block, 2, HostTeam{kFillThreads});
    }
    const L2FactorsBody<Value> find = {source, normals.data(), rows, columns, scale, factors.data()};
    for (std::size_t block = 0; block * kStreamWarps < rows; ++block) find.run(block, HostTeam{kStreamThreads});
    Guarded<Stored> out(rows * columns);
    const L2RowsBody<Stored> body = {x.empty() ? nullptr : x.data(), out.data(), out.size(), columns, scales.data(), normals.data(), factors.data()};
    for (std::size_t block = 0; block < 3; ++block) body.run(block, 3, HostTeam{kStreamThreads});
    check(out.intact(), "nothing is written outside L2-Laplace rows, " + std::to_string(rows) + " x " + std::to_string(columns));
    return out.inside();
}

// The largest difference, relative to the largest element of the row.
template <class Stored>
double worst_difference(const std::vector<Stored>& got, const std::vector<Stored>& expected, std::size_t columns) {
    double worst = 0;
    for (std::size_t first = 0; first < got.size(); first += columns) {
        double largest = 0, difference = 0;
        for (std::size_t i = first; i < first + columns; ++i) {
            if (!std::isfinite(widened(got[i]))) return std::numeric_limits<double>::infinity();
            largest = std::max(largest, std::fabs(double{widened(expected[i])}));
            difference = std::max(difference, std::fabs(double{widened(got[i])} - double{widened(expected[i])}));
        }
        worst = std::max(worst, largest > 0 ? difference / largest : difference);
    }
    return worst;
}

// The same radii and directions as on the CPU: last places may differ, as of all noise of the float grade.
template <class Stored>
void l2_laplace_is_close_to_the_core(std::size_t rows, std::size_t columns) {
    const std::string what = std::string(name_of(kDType<Stored>)) + " " + std::to_string(rows) + " x " + std::to_string(columns);
    const double bound = sizeof(Stored) == 8 ? 1e-13 : (sizeof(Stored) == 4 ? 2e-6 : (kDType<Stored> == DType::float16 ? 1e-3 : 8e-3));
    Device device;
    std::vector<Stored> expected(rows * columns);
    hushvec::fill_noise(test_stream(Cipher::chacha12), Law::l2_laplace, 0.01, view_of(expected, rows, columns));
    check(worst_difference(l2_laplace_rows<Stored>({}, rows, columns, 0.01, device), expected, columns) <= bound, "L2-Laplace noise, " + what);
    std::vector<Stored> x = rows_of<Stored>(rows, columns);
    clip_and_noise(test_stream(Cipher::chacha12), view_of(x, rows, columns), kClipNorm, 0.01, Law::l2_laplace, false, view_of(expected, rows, columns));
    check(worst_difference(l2_laplace_rows(x, rows, columns, 0.01, device), expected, columns) <= bound, "L2-Laplace on rows, " + what);
    check(device.report.first_bad_row == kNoRow, "no bad row, " + what);
}

// A row with NaN or Inf is reported and released as zeros with noise.
void bad_rows_of_l2_laplace() {
    constexpr std::size_t rows = 20, columns = 100;
    std::vector<float> bad = rows_of<float>(rows, columns), zeroed = bad;
    for (const std::size_t row : {std::size_t{9}, std::size_t{19}}) {
        std::fill_n(zeroed.begin() + static_cast<std::ptrdiff_t>(row * columns), columns, 0.0f);
        bad[row * columns + 99] = row == 9 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
    }
    Device device, other;
    check(same_bits(l2_laplace_rows(bad, rows, columns, 0.01, device), l2_laplace_rows(zeroed, rows, columns, 0.01, other)), "bad rows count as zeros");
    check(device.report.first_bad_row == 9 && other.report.first_bad_row == kNoRow, "the first bad row of L2-Laplace");
}

// Functions as wrong as a device's may be. Bits of kSigns say which of them are too large.
template <unsigned kSigns>
struct WorstFunctions {
    static constexpr double error(unsigned function, double size) { return (kSigns >> function) % 2 != 0 ? size : -size; }
    static float log2(float a) {
        const double exact = std::log2(double{a}), size = SpecialFunctions::kLog2Error * (a > 0.5f && a < 2 ? 1 : std::fabs(exact));
        return static_cast<float>(exact + error(0, size));
    }
    static float inverse_root(float a) { return static_cast<float>((1 + error(1, SpecialFunctions::kInverseRootError)) / std::sqrt(double{a})); }
    static float reciprocal(float a) { return static_cast<float>((1 + error(4, SpecialFunctions::kReciprocalError)) / double{a}); }
    static float cosine(float a) { return static_cast<float>(std::cos(double{a}) + error(2, SpecialFunctions::kSineError)); }
    static float sine(float a) { return static_cast<float>(std::sin(double{a}) + error(3, SpecialFunctions::kSineError)); }
};

struct CloseCalls {
    std::size_t accepted = 0, wrong = 0;

    void add(bool open, float got, std::int32_t right) {
        accepted += !open;
        wrong += !open && got != static_cast<float>(right);
    }
};

// `share` of the constants in use.
DeviceGaussianBound gaussian_bound(float share) {
    const auto& bound = cuda::kGaussianBound;
    return {share * bound.constant, share * bound.per_inverse_radius, share * bound.per_radius, bound.smallest};
}
ErrorBound laplace_bound(float share) {
    return {share * cuda::kLaplaceBound.constant, share * cuda::kLaplaceBound.per_scale, share * cuda::kLaplaceBound.per_radius};
}

// What level 1 accepts with `share` of the bound, on words that put X + s Z as near to a half-integer as the bound E lets pass, and how
// much of that is not what the ladder says. Words of every size: near 0, near 2^32 (where a radius is smaller than its error) and between.
template <class Functions>
CloseCalls close_calls(bool gaussian, float share) {
    constexpr float s = 90.0f;
    const KeyStream stream = test_stream(Cipher::chacha8);
    const DeviceGaussianBound g = gaussian_bound(share);
    const ErrorBound l = laplace_bound(share);
    const GaussianLevelOne gaussian_level(s, g);
    const LaplaceLevelOne laplace_level(s, l);
    CloseCalls found;
    std::uint32_t state = 1;
    for (const auto& [first, mask] : {std::pair{0u, ~0u}, {1u << 18, (1u << 20) - 1}, {0u - (1u << 20), (1u << 20) - 1}, {0u - 256u, 255u}, {0u, (1u << 18) - 1}}) {
        for (std::size_t i = 0; i < 100000; ++i) {
            const std::uint32_t a = first + ((state = state * 1664525u + 1013904223u) & mask);
            const std::uint32_t b = state = state * 1664525u + 1013904223u;
            const GaussianWord pair = {i, a, b, i % 2 == 1};
            const LaplaceWord word = {i, a};
            const double z = gaussian ? scaled_bracket(known_bits(pair), s).value : scaled_bracket(known_bits(word), s).value;
            const double log = -std::log((a + 0.5) * 0x1p-32), radius = std::sqrt(2 * log);
            const double edge = gaussian ? double{g.constant} + s * (double{g.per_inverse_radius} / radius + double{g.per_radius} * radius)
                                         : double{l.constant} + s * (double{l.per_scale} + double{l.per_radius} * log);
            const auto x = static_cast<float>(std::floor(z) + 0.5 - z + (i % 4 < 2 ? 1 : -1) * edge * (i % 8 < 4 ? 0.02 : 1.01));
            const Float32Elements<Thread> element = {x};
            if (gaussian) {
                const auto rounding = gaussian_level.round<Functions>(a, b, element, element);
                found.add(rounding.open, pair.sine ? rounding.n.sine : rounding.n.cosine, settle(stream, pair, double{x}, double{s}).index);
            } else {
                const auto rounding = laplace_level.round<Functions>(a, element);
                found.add(rounding.open, rounding.n, settle(stream, word, double{x}, double{s}).index);
            }
        }
    }
    return found;
}

template <unsigned... kSigns>
void level_one_is_right(std::integer_sequence<unsigned, kSigns...>) {
    for (const bool gaussian : {true, false}) {
        const std::string what = gaussian ? "Gaussian" : "Laplace";
        const auto none_wrong = [&](const CloseCalls& found, const std::string& functions) {
            check(found.accepted > 10000 && found.wrong == 0, "level 1, " + what + ", " + functions + ": " + std::to_string(found.wrong) +
                                                                  " wrong of " + std::to_string(found.accepted));
        };
        none_wrong(close_calls<SpecialFunctions>(gaussian, 1), "correct functions");
        (none_wrong(close_calls<WorstFunctions<kSigns>>(gaussian, 1), "errors " + std::to_string(kSigns)), ...);
        check((close_calls<WorstFunctions<kSigns>>(gaussian, 0.5f).wrong + ...) > 0, "half the bound is too small, " + what);
    }
}

// ---- level 0 ----

double minus_log(double u) { return u > 0.75 ? -std::log1p(u - 1) : -std::log(u); }
double worse_end(double computed, double end, double other_end) {
    return std::max(std::fabs(computed - end), std::fabs(computed - other_end));
}

// What per_radius needs to be, over every half word: the error of each radius, beyond what per_interval covers, and of each angle.
template <class Functions>
double needed_of_half_pairs() {
    const GaussianLevelZero level(1.0f);
    double radius = 0, angle = 0;
    for (std::uint32_t half = 0; half < 65536; ++half) {
        const DeviceHalfPair<Functions> pair(level.minus_two_ln2_s2, half << 16 | half);
        if (half > 0 && half << 16 <= kLargestLevelZeroWord) {
            const double low = minus_log(half * 0x1p-16), high = minus_log((half + 1) * 0x1p-16);
            const double error = worse_end(double{pair.r}, std::sqrt(2 * low), std::sqrt(2 * high));
            const double width = Functions::reciprocal(Thread::multiply_add(pair.above, level.share, level.offset));
            radius = std::max(radius, (error - double{pair.inverse_r} * width) / double{pair.r});
        }
        const double v = static_cast<double>(static_cast<std::int16_t>(half << 1)) * 0x1p-16, end = v + 0x1p-15;   // half turns
        angle = std::max({angle, worse_end(double{pair.cosine}, std::cos(M_PI * v), std::cos(M_PI * end)),
                          worse_end(double{pair.sine}, std::sin(M_PI * v), std::sin(M_PI * end))});
    }
    return radius + angle + 1.5 * 0x1p-24;
}

template <class Functions>
double needed_of_half_laplaces() {
    const LaplaceLevelZero level(1.0f);
    double needed = 0;
    for (std::uint32_t half = 2; half < 65536; half += 2) {
        const float odd = above_2_23(half | 1, false);
        const double computed = double{level.minus_ln2_s * Functions::log2(Thread::multiply_add(odd, 0x1p-16f, -0x1p7f))};
        const double interval = double{level.per_interval_s} * Functions::reciprocal(odd - 8388609.0f);
        const double error = worse_end(computed, minus_log(half * 0x1p-16), minus_log((half + 2) * 0x1p-16));
        needed = std::max(needed, (error - interval) / computed);
    }
    return needed + 2 * 0x1p-24;
}

LevelZeroBound share_of(const LevelZeroBound& bound, float share) {
    return {share * bound.constant, share * bound.per_interval, share * bound.per_radius};
}

// What level 0 accepts with `share` of the bound, and how much of that is not what the ladder says of the words that the
// refinement makes of it: its lowest, its highest, or any. X + s Z lies as near to a half-integer as the bound lets pass.
template <class Functions>
CloseCalls close_calls_of_half_words(bool gaussian, float share) {
    constexpr float s = 12.0f;
    const KeyStream stream = test_stream(Cipher::chacha8);
    const GaussianLevelZero gaussian_level(s, share_of(kGaussianLevelZeroBound, share));
    const LaplaceLevelZero laplace_level(s, share_of(kLaplaceLevelZeroBound, share));
    CloseCalls found;
    std::uint32_t state = 1;
    const auto next = [&state] { return state = state * 1664525u + 1013904223u; };
    constexpr std::pair<std::uint32_t, std::uint32_t> kWords[] = {
        {0u, ~0u}, {0u, (1u << 20) - 1}, {0u - (1u << 24), (1u << 24) - 1}, {0u - (1u << 20), (1u << 20) - 1}};
    const auto& g = kGaussianLevelZeroBound;
    const auto& l = kLaplaceLevelZeroBound;
    for (const auto& [first, mask] : kWords) {
        for (std::uint64_t i = 0; i < 100000; ++i) {
            const std::uint32_t word = first + ((next() >> 4 | next() << 20) & mask);
            const std::uint32_t ends[] = {0u, 0xFFFFu, 0xFFFF0000u, ~0u}, more = i % 5 == 4 ? next() : ends[i % 5];
            const JoinedPair joined = gaussian ? joined_gaussian(word, more) : joined_laplaces(word, more);
            const bool second = next() >> 31 != 0;
            const GaussianWord pair = {i, joined.first, joined.second, second};
            const LaplaceWord sample = {i, second ? joined.second : joined.first};
            const double z = gaussian ? scaled_bracket(known_bits(pair), s).value : scaled_bracket(known_bits(sample), s).value;
            const double upper = word >> 16, log = minus_log((upper + 0.5) * 0x1p-16), radius = std::sqrt(2 * log);
            const std::uint32_t odd = (second ? word & 0xFFFFu : word >> 16) | 1u;
            const double edge = gaussian ? s * (double{g.per_interval} / (radius * upper) + double{g.per_radius} * radius)
                                         : s * (double{l.per_interval} / (odd - 1.0) + double{l.per_radius} * minus_log(odd * 0x1p-16));
            const double nearness = std::isfinite(edge) ? std::min(edge, 0.5) : 0.5;
            const auto x = static_cast<float>(std::floor(z) + 0.5 - z + (i % 4 < 2 ? 1 : -1) * nearness * (i % 8 < 4 ? 0.02 : 1.01));
            const Float32Elements<Thread> element = {x};
            if (gaussian) {
                const auto rounding = gaussian_level.round<Functions>(word, element, element);
                found.add(rounding.open, second ? rounding.n.sine : rounding.n.cosine, settle(stream, pair, double{x}, double{s}).index);
            } else {
                const auto rounding = laplace_level.round<Functions>(word, !second, element);
                found.add(rounding.open, rounding.n, settle(stream, sample, double{x}, double{s}).index);
            }
        }
    }
    return found;
}

// The first interval reaches u = 0, whose noise has no bound, at any s.
void words_that_level_0_never_accepts() {
    for (const float s : {0x1p-9f, 0.5f, 8.0f, 15.9f}) {
        bool all_open = true;
        for (std::uint32_t low = 0; low < 65536; low += 257) {
            const Float32Elements<Thread> zero = {0.0f};
            all_open &= GaussianLevelZero(s).round(low, zero, zero).open && LaplaceLevelZero(s).round(low % 2 << 16 | 2, true, zero).open;
            all_open &= LaplaceLevelZero(s).round(low << 16 | (low & 1u), false, zero).open;
            for (std::uint32_t k = 0; k < 4; ++k) all_open &= GaussianLevelZero(s).round((0xFFFFu - k) << 16 | low, zero, zero).open;
        }
        check(all_open, "words that level 0 never accepts, s = " + std::to_string(s));
    }
}

template <unsigned... kSigns>
void level_zero_is_right(std::integer_sequence<unsigned, kSigns...>) {
    const auto gaussian = std::max({needed_of_half_pairs<SpecialFunctions>(), needed_of_half_pairs<WorstFunctions<kSigns>>()...});
    const auto laplace = std::max({needed_of_half_laplaces<SpecialFunctions>(), needed_of_half_laplaces<WorstFunctions<kSigns>>()...});
    const auto holds = [](const char* law, double needed, double in_use) {
        std::printf("level 0, %s: needed %.4e, in use %.4e (%.3f)\n", law, needed, in_use, needed / in_use);
        check(needed <= in_use, std::string("the bound of level 0 holds, ") + law);
    };
    holds("Gaussian", gaussian * (1 + 0x1p-20), double{kGaussianLevelZeroBound.per_radius});
    holds("Laplace", laplace * (1 + 0x1p-20), double{kLaplaceLevelZeroBound.per_radius});
    for (const bool is_gaussian : {true, false}) {
        const std::string what = is_gaussian ? "Gaussian" : "Laplace";
        const auto none_wrong = [&](const CloseCalls& found, const std::string& functions) {
            check(found.accepted > 10000 && found.wrong == 0, "level 0, " + what + ", " + functions + ": " + std::to_string(found.wrong) +
                                                                  " wrong of " + std::to_string(found.accepted));
        };
        none_wrong(close_calls_of_half_words<SpecialFunctions>(is_gaussian, 1), "correct functions");
        none_wrong(close_calls_of_half_words<WorstFunctions<0>>(is_gaussian, 1), "functions that are too small");
        none_wrong(close_calls_of_half_words<WorstFunctions<15>>(is_gaussian, 1), "functions that are too large");
        check(close_calls_of_half_words<SpecialFunctions>(is_gaussian, 0.9f).wrong > 0, "nine tenths of the bound are too small, " + what);
    }
    words_that_level_0_never_accepts();
}

// The same for the noise of several streams, whose words are all of one size.
template <class Functions>
CloseCalls close_calls_of_several(const std::vector<double>& s, float share) {
    const KeyStream stream = test_stream(Cipher::chacha8);
    const DeviceGaussianBound bound = gaussian_bound(share);
    const CombinationLevelOne level(s.size(), bound);
    CloseCalls found;
    std::uint32_t state = 1;
    for (const auto& [first, mask] : {std::pair{0u, ~0u}, {1u << 18, (1u << 20) - 1}, {0u - (1u << 20), (1u << 20) - 1}, {0u - 256u, 255u}, {0u, (1u << 18) - 1}}) {
        for (std::uint64_t i = 0; i < 20000; ++i) {
            const bool sine = i % 2 == 1;
            NormalSum<Thread> noise = {};
            Float64Combination level_2, level_3;
            double edge = bound.constant;
            for (std::size_t term = 0; term < s.size(); ++term) {
                const std::uint32_t a = first + ((state = state * 1664525u + 1013904223u) & mask);
                const std::uint32_t b = state = state * 1664525u + 1013904223u;
                const GaussianWord word = {i, a, b, sine};
                noise = level.plus<Functions>(noise, static_cast<float>(s[term]), a, b);
                level_2.add(known_bits(word), s[term]);
                level_3.add(known_bits(word, extension_block(stream, i * s.size() + term)), s[term]);
                const double radius = std::sqrt(-2 * std::log((a + 0.5) * 0x1p-32));
                edge += std::fabs(s[term]) * (bound.per_inverse_radius / radius + (bound.per_radius + static_cast<double>(s.size() + 1) * 0x1p-24) * radius);
            }
            const double z = level_2.bracket().value;
            const double x = std::floor(z) + 0.5 - z + (i % 4 < 2 ? 1 : -1) * edge * (i % 8 < 4 ? 0.02 : 1.01);
            const auto rounding = level.limit.round(noise, Float64Elements<Thread>{x}, Float64Elements<Thread>{x});
            auto right = decide(level_2.bracket(), x);
            if (!right) right = decide(level_3.bracket(), x);
            found.add(rounding.open, sine ? rounding.n.sine : rounding.n.cosine, right.value_or(-1'000'000));   // 96 bits of each uniform decide
        }
    }
    return found;
}

template <unsigned... kSigns>
void level_one_of_several_is_right(std::integer_sequence<unsigned, kSigns...>) {
    for (const std::vector<double>& s : {std::vector<double>{90.0}, {127.5, -63.75, -15.9375}, std::vector<double>(8, -90.0), {90.0, 1e-30, -1e-42}}) {
        const std::string what = std::to_string(s.size()) + " streams";
        const auto none_wrong = [&](const CloseCalls& found) {
            check(found.accepted > 10000 && found.wrong == 0, "level 1 of " + what + ": " + std::to_string(found.wrong) + " wrong of " + std::to_string(found.accepted));
        };
        none_wrong(close_calls_of_several<SpecialFunctions>(s, 1));
        (none_wrong(close_calls_of_several<WorstFunctions<kSigns>>(s, 1)), ...);
        // Of more streams, errors of the radius seldom all point one way.
        if (s.size() <= 3) check((close_calls_of_several<WorstFunctions<kSigns>>(s, 0.5f).wrong + ...) > 0, "half the bound is too small, " + what);
    }
}

// Columns first to last of a matrix, as a matrix of its own: a part of its rows.
std::vector<float> columns_of(const std::vector<float>& x, std::size_t rows, std::size_t columns, std::size_t first, std::size_t last) {
    std::vector<float> part;
    for (std::size_t row = 0; row < rows; ++row) part.insert(part.end(), &x[row * columns + first], &x[row * columns + last]);
    return part;
}

// The kernels' scales, sums and release of rows in parts.
struct DeviceSum {
    static constexpr float kUntouched = 12345.0f;

    Device device;
    std::vector<double> squares;
    std::vector<float> scales;
    std::vector<std::vector<double>> sums;

    DeviceSum(const std::vector<std::vector<float>>& parts, std::size_t rows) : squares(rows, 1e300), scales(rows) {
        for (std::size_t i = 0; i < parts.size(); ++i) {
            const std::size_t columns = parts[i].size() / rows, stretches = (columns + kNormStretch - 1) / kNormStretch;
            std::vector<double> partial(rows * stretches);
            const StretchNormsBody<float> norms = {parts[i].data(), rows, columns, partial.data()};
            for (std::size_t block = 0; block * kStreamWarps < partial.size(); ++block) norms.run(block, HostTeam{kStreamThreads});
            const JoinNormsBody join = {partial.data(), rows, stretches, i == 0, i + 1 == parts.size(), kClipNorm, sum_unit(kClipNorm),
                                        squares.data(), scales.data(), &device.report};
            for (std::size_t block = 0; block * kStreamWarps < rows; ++block) join.run(block, HostTeam{kStreamThreads});
        }
        for (const std::vector<float>& part : parts) {
            const std::size_t columns = part.size() / rows;
            std::vector<double>& sum = sums.emplace_back(columns);
            const ColumnSumsBody<float> add = {part.data(), rows, columns, scales.data(), sum.data()};
            for (std::size_t block = add.blocks(); block-- > 0;) add.run(block, HostTeam{add.threads()});
        }
    }

    // All parts at once, each from a multiple of so many groups on: run(their table, how many groups they have).
    template <class Run>
    std::vector<std::vector<float>> released(ExactGrid grid, std::size_t multiple, const Run& run) {
        std::vector<std::vector<float>> out;
        std::vector<SumPart> table;
        std::size_t groups = 0;
        for (const std::vector<double>& sum : sums) out.emplace_back(sum.size() + 1, kUntouched);
        for (std::size_t i = 0; i < sums.size(); ++i) {
            table.push_back({sums[i].data(), out[i].data(), sums[i].size(), groups});
            groups += (sums[i].size() + multiple * kGroupSamples - 1) / (multiple * kGroupSamples) * multiple;
        }
        const SumParts parts = {stream_of_part(0), table.data(), static_cast<std::uint32_t>(table.size()), grid.grid};
        run(parts, groups);
        for (std::vector<float>& part : out) {
            check(part.back() == kUntouched, "nothing is written behind the sum");
            part.pop_back();
        }
        return out;
    }

    std::vector<std::vector<float>> released(bool half_words) {
        const ExactGrid grid = exact_grid(kSigma, kClipNorm, half_words);
        const float s = grid.sigma / grid.grid;
        const double in_grids = sum_unit(kClipNorm) / double{grid.grid};
        device = Device();
        return released(grid, kHalfWordGroups, [&](const SumParts& parts, std::size_t groups) {
            if (half_words) {
                const std::size_t items = groups / kHalfWordGroups;
                run_all(HalfSumNoiseBody{parts, items, HalfGaussian<double>(s, grid.grid), device.open_pairs(), in_grids}, items);
                run_refinement(parts, true, s, device);
            } else {
                run_all(SumNoiseBody{parts, groups, {GaussianLevelOne(s), grid.grid, device.open_pairs()}, in_grids}, groups);
                run_ladder(parts, true, s, device);
            }
        });
    }

    std::vector<std::vector<float>> released(std::span<const NoiseTerm> terms) {
        const ExactGrid grid = exact_grid(kSigma, kClipNorm);
        NoiseTerms in_grids;
        for (const NoiseTerm& term : terms) in_grids.list[in_grids.count++] = {*term.stream, double{grid.sigma / grid.grid} * double{term.coefficient}};
        return released(grid, 1, [&](const SumParts& parts, std::size_t groups) {
            run_all(CombinedNoiseBody{parts, groups, CombinationLevelOne(terms.size()), device.open_pairs(), sum_unit(kClipNorm) / double{grid.grid}, in_grids}, groups);
            const CombinationLadderBody ladder = {parts, device.open_pairs(), device.open_samples(), in_grids};
            for (unsigned block = 0; block < 3; ++block) ladder.run(block, 3, HostTeam{kLadderThreads});
            CombinationSettleBody{parts, device.open_samples(), in_grids}.run();
            check(is_wiped(device), "the lists of open pairs and samples are wiped");
        });
    }

    template <class Body>
    static void run_all(const Body& body, std::size_t items) {
        for (std::size_t block = 0; block * (kStreamThreads / kGroupBlocks) < items; ++block) body.run(block, HostTeam{kStreamThreads});
    }

    static KeyStream stream_of_part(std::size_t part) {
        KeyStream stream = test_stream(Cipher::chacha12);
        stream.nonce += part;
        return stream;
    }
};

// Noise of p streams, and that few samples are left open: their list has room for more.
void releases_of_several_equal_the_core(DeviceSum& on_device, ClippedSum& on_host, const std::vector<std::size_t>& lengths, std::size_t p) {
    std::vector<KeyStream> streams;
    std::vector<NoiseTerm> terms;
    double size = 0;
    for (std::size_t i = 0; i < p; ++i) streams.push_back(DeviceSum::stream_of_part(i));
    for (std::size_t i = 0; i < p; ++i) terms.push_back({&streams[i], (i % 2 == 0 ? 1.0f : -1.0f) / static_cast<float>(i + 1)});
    for (const NoiseTerm& term : terms) size += std::fabs(double{term.coefficient});
    on_device.device = Device();
    const std::vector<std::vector<float>> released = on_device.released(terms);
    std::uint64_t first_group = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
        std::vector<float> from_host(lengths[i]);
        on_host.release(i, terms, first_group, from_host.data());
        check(from_host == released[i], "the CPU's bits, part " + std::to_string(i) + ", " + std::to_string(p) + " streams");
        first_group += (lengths[i] + kGroupSamples - 1) / kGroupSamples;
    }
    const std::size_t samples = first_group * kGroupSamples, room = open_pair_capacity(samples, p, size) - 4096;
    check(on_device.device.listed_pairs > 0 && on_device.device.listed_pairs < room + 30,
          std::to_string(on_device.device.listed_pairs) + " of " + std::to_string(samples) + " samples open, " + std::to_string(p) + " streams: " + std::to_string(room));
}

// Parts of more than one stretch of a norm, and more than one run of rows: the CPU's bits, and the plain sum.
void sums() {
    constexpr std::size_t rows = 130, columns = 20001;
    const std::vector<float> x = rows_of<float>(rows, columns);
    for (const std::vector<std::size_t>& ends : {std::vector<std::size_t>{columns}, {12000, columns}, {1, 300, 8492, columns}}) {
        const std::string what = std::to_string(ends.size()) + " parts";
        std::vector<std::vector<float>> parts;
        for (std::size_t i = 0; i < ends.size(); ++i) parts.push_back(columns_of(x, rows, columns, i == 0 ? 0 : ends[i - 1], ends[i]));
        DeviceSum on_device(parts, rows);

        bool norms_agree = true;
        std::vector<double> expected_sum(columns), sum;
        for (std::size_t row = 0; row < rows; ++row) {
            double square = 0;
            for (std::size_t j = 0; j < columns; ++j) square += double{x[row * columns + j]} * double{x[row * columns + j]};
            const double scale = std::min(1.0, kClipNorm / std::sqrt(square)) / sum_unit(kClipNorm);
            norms_agree &= square == 0 || std::fabs(double{on_device.scales[row]} / scale - 1) < 2e-6;
            for (std::size_t j = 0; j < columns; ++j) expected_sum[j] += std::trunc(double{x[row * columns + j] * on_device.scales[row]});
        }
        for (const std::vector<double>& part : on_device.sums) sum.insert(sum.end(), part.begin(), part.end());
        check(norms_agree, "norms of rows, " + what);
        check(expected_sum == sum, "sums do not depend on their order, " + what);

        std::vector<std::size_t> lengths;
        std::vector<MatrixView> views;
        for (const std::vector<float>& part : parts) {
            lengths.push_back(part.size() / rows);
            views.push_back({reinterpret_cast<std::byte*>(const_cast<float*>(part.data())), DType::float32, rows, lengths.back(),
                             static_cast<std::ptrdiff_t>(lengths.back() * sizeof(float)), sizeof(float)});
        }
        ClippedSum on_host(lengths, kClipNorm, kSigma, rows, Clipping::exact);
        on_host.add(views);
        for (const bool half_words : {false, true}) {
            const std::vector<std::vector<float>> released = on_device.released(half_words);
            for (std::size_t i = 0; i < parts.size(); ++i) {
                std::vector<float> from_host(lengths[i]);
                KeyStream stream = DeviceSum::stream_of_part(i);
                stream.half_words = half_words;
                on_host.release(i, stream, from_host.data());
                check(from_host == released[i], "the CPU's bits, part " + std::to_string(i) + " of " + what + (half_words ? ", version 3" : ""));
            }
        }
        for (const std::size_t p : {std::size_t{1}, std::size_t{3}, std::size_t{16}}) releases_of_several_equal_the_core(on_device, on_host, lengths, p);
    }
}

// One NaN in any part makes the row bad.
void a_bad_row_of_a_sum_is_reported() {
    constexpr std::size_t rows = 70;
    std::vector<std::vector<float>> parts = {rows_of<float>(rows, 300), rows_of<float>(rows, 9000)};
    parts[1][41 * 9000 + 8999] = std::numeric_limits<float>::infinity();
    const DeviceSum sum(parts, rows);
    check(sum.device.report.first_bad_row == 41, "the bad row of a sum");
}

constexpr std::size_t kSettledCount = 700;

// Where a test of listed samples writes, and the CPU's answers in the same places.
struct Settled {
    std::vector<double> out = std::vector<double>(8192, -1.0), expected = out;
    ExactGrid grid = exact_grid(kSigma, kClipNorm);
    float s = grid.sigma / grid.grid;
    CallStream source = {test_stream(Cipher::chacha12)};

    SettledOutput output() { return {out.data(), DType::float64, kSettledCount, grid.grid}; }

    void expect(bool gaussian, std::uint64_t index, std::uint32_t first_word, std::uint32_t second_word, bool sine, double x) {
        const std::int32_t n = gaussian ? settle(source.stream, GaussianWord{index, first_word, second_word, sine}, x, double{s}).index
                                        : settle(source.stream, LaplaceWord{index, first_word}, x, double{s}).index;
        const std::uint64_t sample = gaussian ? index / 128 * 256 + index % 128 + (sine ? 128 : 0) : index;
        if (sample < kSettledCount) expected[sample] = n * double{grid.grid};
    }
};

// Pairs in the list are settled in float64, in the right place, and what float64 cannot settle goes on to the next level.
void listed_pairs_are_settled() {
    for (const bool gaussian : {true, false}) {
        Settled settled;
        Device device;
        // The last of them lie behind the end of the array: the kernels work on whole groups.
        for (const std::uint64_t pair : {std::uint64_t{5}, std::uint64_t{300}, std::uint64_t{340}, std::uint64_t{2000}}) {
            const std::uint64_t sample = pair / 128 * 256 + pair % 128;
            const std::uint32_t words[2] = {0x12345678u, static_cast<std::uint32_t>(0x9ABCDEF0u + pair)};
            // The second sample of pair 5 is a tie for all that 96 bits of each uniform can tell.
            double x[2] = {2.25, 3.75};
            if (pair == 5) {
                const double z = gaussian ? scaled_bracket(known_bits(GaussianWord{pair, words[0], words[1], true}, extension_block(settled.source.stream, pair)), settled.s).value
                                          : scaled_bracket(known_bits(LaplaceWord{sample + 128, words[1]}, extension_block(settled.source.stream, sample + 128)), settled.s).value;
                x[1] = std::floor(z) + 0.5 - z;
            }
            device.open_pairs().add({pair, {words[0], words[1]}, {x[0], x[1]}});
            for (const bool second : {false, true}) {
                if (gaussian) settled.expect(true, pair, words[0], words[1], second, x[second]);
                else settled.expect(false, sample + (second ? 128 : 0), words[second], 0, false, x[second]);
            }
        }
        run_ladder(settled.source, gaussian, settled.s, device, settled.output());
        const std::string what = gaussian ? "Gaussian" : "Laplace";
        check(settled.out == settled.expected, "listed pairs, " + what);
        check(device.report.open_samples == 1 && device.report.overflow == 0, "one of them needs more than float64, " + what);
    }
    Device full;
    full.pairs.resize(3);
    for (std::uint32_t i = 0; i < 3; ++i) full.open_pairs().add({i, {1u << 20, 0}, {0, 0}});
    check(full.report.overflow == 0 && full.open_pairs().size() == 3, "a full list of pairs");
    full.open_pairs().add({3, {1u << 20, 0}, {0, 0}});
    check(full.report.overflow == 1 && full.open_pairs().size() == 3, "a list of pairs that overflows says so");
}

// The same behind level 0: the words of a pair are made of the listed one and of its refinement.
void listed_pairs_are_refined() {
    for (const bool gaussian : {true, false}) {
        Settled settled;
        Device device;
        for (const std::uint64_t pair : {std::uint64_t{5}, std::uint64_t{133}, std::uint64_t{300}, std::uint64_t{340}, std::uint64_t{2000}}) {
            const std::uint64_t sample = pair / 128 * 256 + pair % 128;
            // Words below 2^18 leave level 1 at once.
            const std::uint32_t word = pair == 133 ? 0x00019ABCu : 0x12345678u + static_cast<std::uint32_t>(pair);
            const Block block = lane_block(settled.source.stream, domain::kRefinement, pair / 256 * 16 + pair % 16);
            const std::uint32_t more = block[pair % 256 / 16];
            const JoinedPair words = gaussian ? joined_gaussian(word, more) : joined_laplaces(word, more);
            double x[2] = {2.25, 3.75};
            if (pair == 5) {   // a tie for all that 96 bits of each uniform can tell, and someone else's sample
                const GaussianWord in_pair = {pair, words.first, words.second, true};
                const LaplaceWord alone = {sample + 128, words.second};
                const Block extension = extension_block(settled.source.stream, gaussian ? pair : sample + 128);
                const double z = gaussian ? scaled_bracket(known_bits(in_pair, extension), settled.s).value
                                          : scaled_bracket(known_bits(alone, extension), settled.s).value;
                x[0] = kNotOurs;
                x[1] = std::floor(z) + 0.5 - z;
            }
            device.open_pairs().add({pair, {word, 0}, {x[0], x[1]}});
            for (const bool second : {false, true}) {
                if (std::isnan(x[second])) continue;
                if (gaussian) settled.expect(true, pair, words.first, words.second, second, x[second]);
                else settled.expect(false, sample + (second ? 128 : 0), second ? words.second : words.first, 0, false, x[second]);
            }
        }
        run_refinement(OneOutput{settled.source, settled.output()}, gaussian, settled.s, device);
        const std::string what = gaussian ? "Gaussian" : "Laplace";
        check(settled.out == settled.expected, "listed pairs of version 3, " + what);
        check(device.report.open_samples == 1 && device.report.overflow == 0, "one of them needs more than float64, version 3, " + what);
    }
}

// A grid far too fine for level 0 leaves everything open: a tile that cannot list it says so.
void a_tile_that_lists_too_much_says_so() {
    constexpr std::size_t rows = 16, columns = 384;
    const std::vector<float> x = rows_of<float>(rows, columns);
    const HalfGaussian<float> noise(0x1p20f, 0x1p-20f);
    const auto shape = tile_shape<float, TilesOfHalfWords>(rows, columns, kSharedBytes);
    check(shape.has_value() && shape->tiles() == 1, "one tile");
    Device device;
    Guarded<float> out(x.size());
    const HalfNoiseWork<float, HalfGaussian<float>, false> work({test_stream()}, noise, device.open_pairs());
    run_tiles<float>(*shape, x, out, 0x1p-20, work, device);
    check(device.report.overflow == 1 && device.listed_pairs == 64 + rows * columns / 64 && out.intact(), "a tile that lists too much says so");
}

// What the ladder lists is settled afterwards, in the right place.
void listed_samples_are_settled() {
    for (const bool gaussian : {true, false}) {
        Settled settled;
        Device device;
        for (const std::uint64_t index : {std::uint64_t{5}, std::uint64_t{300}, std::uint64_t{kSettledCount}, std::uint64_t{2000}}) {
            for (const bool sine : {false, true}) {
                if (sine && !gaussian) continue;
                device.open_samples().add({2.25, index, 0x12345678u, 0x9ABCDEF0u, sine});
                settled.expect(gaussian, index, 0x12345678u, 0x9ABCDEF0u, sine, 2.25);
            }
        }
        SettleBody{settled.source, gaussian, settled.s, device.open_samples(), settled.output()}.run();
        check(is_wiped(device), "listed samples are wiped");
        check(settled.out == settled.expected, gaussian ? "listed Gaussian samples" : "listed Laplace samples");
    }
    Device full;
    for (std::uint32_t i = 0; i <= kOpenCapacity; ++i) full.open_samples().add({0, i, 1u << 20, 0, false});
    check(full.report.overflow == 1, "a list that overflows says so");
}

}  // namespace

int main() {
    // Tiles of whole groups, tiles that cut groups, and rows that leave the array's 16-byte steps.
    for (const std::size_t columns : {64u, 65u, 100u, 255u, 300u, 384u, 768u, 1000u, 1024u, 1536u, 5001u}) {
        exact_grade_equals_the_core<float>(67, columns, true);
        exact_grade_equals_the_core<Float16>(67, columns, true);
        exact_grade_equals_the_core<Bfloat16>(67, columns, true);
        clip_equals_the_core<float>(67, columns);
        clip_equals_the_core<Bfloat16>(67, columns);
    }
    for (const std::size_t columns : {std::size_t{1}, std::size_t{31}, std::size_t{257}, std::size_t{768}}) {
        exact_grade_equals_the_core<float>(70, columns, false);
        exact_grade_equals_the_core<double>(70, columns, false);
        exact_grade_equals_the_core<Float16>(70, columns, false);
        clip_equals_the_core<double>(70, columns);
        clip_equals_the_core<Float16>(70, columns);
    }
    exact_grade_equals_the_core<float>(1, 50001, false);
    // Version 3: tiles that begin in the middle of a block of the stream too.
    for (const std::size_t columns : {64u, 65u, 100u, 255u, 256u, 384u, 400u, 768u, 1000u, 1024u, 1025u, 1280u, 5001u, 6400u}) {
        half_words_equal_the_core<float>(67, columns, true, Cipher::chacha12);
        half_words_equal_the_core<Float16>(67, columns, true, Cipher::chacha20);
        half_words_equal_the_core<Bfloat16>(66, columns, true, Cipher::chacha8);
    }
    for (const std::size_t columns : {std::size_t{1}, std::size_t{31}, std::size_t{257}, std::size_t{768}}) {
        half_words_equal_the_core<float>(70, columns, false, Cipher::chacha20);
        half_words_equal_the_core<double>(70, columns, false, Cipher::chacha12);
        half_words_equal_the_core<Float16>(70, columns, false, Cipher::chacha8);
    }
    half_words_equal_the_core<float>(1, 1, false, Cipher::chacha20);
    half_words_equal_the_core<float>(1, 50001, false, Cipher::chacha20);
    half_words_equal_the_core<double>(3, 70001, false, Cipher::chacha20);
    float_grade_is_close_to_the_core<float>(67, 768, true);
    float_grade_is_close_to_the_core<float>(67, 100, true);
    float_grade_is_close_to_the_core<Bfloat16>(67, 384, true);
    float_grade_is_close_to_the_core<float>(67, 257, false);
    float_grade_is_close_to_the_core<double>(67, 257, false);
    a_state_is_the_same_stream();
    rounds_that_chacha_does_not_have();
    calls_that_overlap_draw_apart();
    bad_rows_become_zeros();
    huge_float64_rows();
    fills_equal_the_core<float>();
    fills_equal_the_core<double>();
    fills_equal_the_core<Float16>();
    fills_equal_the_core<Bfloat16>();
    for (const std::size_t columns : {1u, 2u, 31u, 33u, 100u, 256u, 384u, 1000u}) {
        l2_laplace_is_close_to_the_core<float>(37, columns);
        l2_laplace_is_close_to_the_core<double>(37, columns);
        l2_laplace_is_close_to_the_core<Float16>(9, columns);
        l2_laplace_is_close_to_the_core<Bfloat16>(9, columns);
    }
    l2_laplace_is_close_to_the_core<float>(1, 30001);
    bad_rows_of_l2_laplace();
    level_one_is_right(std::make_integer_sequence<unsigned, 16>{});
    level_zero_is_right(std::make_integer_sequence<unsigned, 32>{});
    level_one_of_several_is_right(std::make_integer_sequence<unsigned, 16>{});
    listed_pairs_are_settled();
    listed_pairs_are_refined();
    a_tile_that_lists_too_much_says_so();
    sums();
    a_bad_row_of_a_sum_is_reported();
    listed_samples_are_settled();
    return test::summary();
}
