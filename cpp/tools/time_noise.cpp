// Times the passes of exact noise in cache, on one thread: ns a sample from whole words (format versions 1 and 2) and from half words
// (version 3), by law, dtype, cipher, s = sigma / grid and the groups of a run, of which a call makes many. As JSON.
//
// Every repetition has a nonce of its own. With one nonce for all, a branch predictor learns which pairs level 0 leaves open, which a
// processor that makes noise for the first time cannot know.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>

#include "dispatch/aes_dispatch.hpp"
#include "dispatch/dispatch.hpp"
#include "dispatch/kernels.hpp"
#include "hushvec/wiped_stream.hpp"
#include "noise/open_queue.hpp"

namespace {

using namespace hushvec;

constexpr std::size_t kGroups = 192;   // 192 KiB of float32: what a second-level cache holds with its output
constexpr std::size_t kSamples = kGroups * kGroupSamples;

bool is_first = true;   // of the rows printed

// In large pages where the system gives them: which lines of a second-level cache small pages share is decided by chance.
struct Free {
    void operator()(void* p) const { std::free(p); }
};
template <class Number>
std::unique_ptr<Number[], Free> in_large_page() {
    constexpr std::size_t page = std::size_t{1} << 21;
    static_assert(kSamples * sizeof(Number) <= page);
    return std::unique_ptr<Number[], Free>(static_cast<Number*>(std::aligned_alloc(page, page)));
}

template <class Element>
struct Pass {
    void (*whole)(const KeyStream&, const NoiseRun<Element>&, GridScale, ErrorBound);
    void (*half)(const KeyStream&, const NoiseRun<Element>&, GridScale, ErrorBound, OpenQueue<Element>&);
    void (*settle)(const KeyStream&, GridScale, ErrorBound, OpenQueue<Element>&);
    ErrorBound bound;
};

Pass<float> pass_of(const Kernels& k, bool gaussian, float) {
    return gaussian ? Pass<float>{k.exact_gaussian, k.half_gaussian, k.settle_gaussian, k.gaussian_bound}
                    : Pass<float>{k.exact_laplace, k.half_laplace, k.settle_laplace, k.laplace_bound};
}
Pass<double> pass_of(const Kernels& k, bool gaussian, double) {
    return gaussian ? Pass<double>{k.exact_gaussian_f64, k.half_gaussian_f64, k.settle_gaussian_f64, k.gaussian_bound}
                    : Pass<double>{k.exact_laplace_f64, k.half_laplace_f64, k.settle_laplace_f64, k.laplace_bound};
}

template <class Work>
void keep_fastest(double& fastest, Work work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    fastest = std::min(fastest, took.count() / kSamples);
}

template <class Element>
void time_pass(const char* law, const char* dtype, Cipher cipher, const char* cipher_name, float s, std::size_t groups_of_run, int repetitions) {
    const Pass<Element> pass = pass_of(active_kernels(), law[0] == 'g', Element{});
    const GridScale grid = {s, 0.6f / s};
    const auto x = in_large_page<Element>();
    const auto y = in_large_page<float>();
    alignas(64) Element scale[kRunScales];
    std::fill_n(scale, kRunScales, static_cast<Element>(0.0361f / grid.grid));
    std::fill_n(y.get(), kSamples, 0.0f);
    std::mt19937_64 engine(1);
    std::normal_distribution<Element> normal;
    for (std::size_t i = 0; i < kSamples; ++i) x[i] = normal(engine);
    const auto for_runs = [&](auto kernel) {
        for (std::size_t group = 0; group < kGroups; group += groups_of_run) {
            const std::size_t first = group * kGroupSamples;
            kernel(NoiseRun<Element>{group, groups_of_run, x.get() + first, scale, kOneRow, y.get() + first, 0});
        }
    };
    double whole = std::numeric_limits<double>::infinity(), half = whole;
    for (int repetition = 0; repetition < repetitions; ++repetition) {
        KeyStream key;
        for (auto& word : key.key) word = static_cast<std::uint32_t>(engine());
        key.nonce = engine();
        key.cipher = cipher;
        const WipedStream stream(key);
        keep_fastest(whole, [&] { for_runs([&](const NoiseRun<Element>& run) { pass.whole(stream, run, grid, pass.bound); }); });
        keep_fastest(half, [&] {
            OpenQueue<Element> queue;
            for_runs([&](const NoiseRun<Element>& run) { pass.half(stream, run, grid, pass.bound, queue); });
            pass.settle(stream, grid, pass.bound, queue);
        });
    }
    std::printf("%s\n  {\"law\": \"%s\", \"dtype\": \"%s\", \"cipher\": \"%s\", \"s\": %.1f, \"groups\": %zu, \"whole\": %.4f, \"half\": %.4f}",
                is_first ? "" : ",", law, dtype, cipher_name, double{s}, groups_of_run, whole, half);
    is_first = false;
}

}  // namespace

int main(int argc, char** argv) {
    const int repetitions = argc > 1 ? std::atoi(argv[1]) : 1500;
    std::printf("{\"backend\": \"%s\", \"aes\": \"%s\", \"repetitions\": %d, \"ns_per_sample\": [", active_kernels().name, active_aes().name,
                repetitions);
    for (const float s : {8.0f, 9.6f, 12.8f, 15.9f}) {
        for (const std::size_t groups : {3u, 6u, 96u}) {
            time_pass<float>("gaussian", "float32", Cipher::aes256, "aes256", s, groups, repetitions);
        }
        time_pass<float>("laplacian", "float32", Cipher::aes256, "aes256", s, 6, repetitions);
        time_pass<double>("gaussian", "float64", Cipher::aes256, "aes256", s, 6, repetitions / 2);
        time_pass<float>("gaussian", "float32", Cipher::chacha20, "chacha20", s, 6, repetitions / 2);
    }
    std::printf("\n]}\n");
}
