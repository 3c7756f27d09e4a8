// Measures how far the float32 lanes are from the truth, over every word, and compares with the constants in use.
//
//   check_error_bounds [--every K]     every K-th block of 4096 words (1: all 2^32 radius and Laplace words, all 2^31 angles)
//
// For each backend this machine runs, with both ends of the interval that a word stands for:
//   radius   rho = max (|computed - true| - slack) / computed         over the words inside the window; slack: the bound's absolute part
//   angle    tau = max |computed - true| of cosine and sine
//   laplace  rho of the magnitude, likewise
// and needed = rho + tau + roundings (docs/proofs/level1_bound.md), to be at most per_radius. Exits 1 if any constant is too small.
// Of level 0, which has half words: every radius, angle and Laplace magnitude likewise, with limits by the exponent of u; and over all
// 2^32 words of a pair, |d - (s Z + X - n)| at the corners of the word's rectangle, as a share of the bound in use (half_word_bounds.hpp).
// The device's lane is measured too, with functions that are correctly rounded, and the documented errors of a device's own are added
// (cuda/src/device/level_one.hpp); cuda/tools/check_device_bounds.cu measures it on a device.
// The reference is the C library's double precision, whose error of some 2^-52 is added to what is measured.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "device/level_one.hpp"
#include "device/thread_lane.hpp"
#include "dispatch/dispatch.hpp"
#include "half_word_bounds.hpp"
#include "hushvec/dispatch.hpp"
#include "noise/error_bounds.hpp"
#include "noise/word_kernels.hpp"

namespace {

using namespace hushvec;

constexpr std::size_t kBlock = 4096;
constexpr double kUnit = 0x1p-24;               // half an ulp of 1 in float32
constexpr double kReferenceError = 0x1p-48;     // of log, sqrt, sin and cos in double, absolute here; 2^-52 is usual

// What is measured of one backend, and the constants that it uses.
struct Measured {
    const char* name;
    void (*normals)(const std::uint32_t* radius_words, const std::uint32_t* angle_words, std::size_t count, float* radius, float* cosine, float* sine);
    void (*minus_two_logs)(const std::uint32_t* words, std::size_t count, float* out);
    ErrorBound gaussian, laplace;
    WordWindow window;
    double roundings;                // behind radius, cosine and sine, in unit roundoffs
    double per_inverse_radius = 0;   // more slack: this / radius
    // Errors that a host does not have.
    double of_functions = 0, of_log = 0, of_small_log = 0;
};

Measured backend_of(const Kernels& kernels) {
    // Roundoffs: r, X - n, and without a fused multiply-add the product r c.
    const bool fused = std::strcmp(kernels.name, "portable") != 0;
    const WordKernels& on_words = word_kernels_by_name(kernels.name);
    return {kernels.name, on_words.normals, on_words.minus_two_logs, kernels.gaussian_bound, kernels.laplace_bound, kGaussianWindow, fused ? 2.0 : 3.0};
}

void device_normals(const std::uint32_t* radius_words, const std::uint32_t* angle_words, std::size_t count, float* radius, float* cosine, float* sine) {
    const cuda::GaussianLevelOne level(1.0f);
    for (std::size_t i = 0; i < count; ++i) {
        const cuda::DeviceNormalPair<cuda::SpecialFunctions> normal(level.minus_two_ln2_s2, radius_words[i], angle_words[i]);
        radius[i] = normal.r;
        cosine[i] = normal.cosine;
        sine[i] = normal.sine;
    }
}

void device_minus_two_logs(const std::uint32_t* words, std::size_t count, float* out) {
    const float minus_ln2 = cuda::LaplaceLevelOne(1.0f).minus_ln2_s;
    for (std::size_t i = 0; i < count; ++i) out[i] = 2 * cuda::laplace_magnitude<cuda::SpecialFunctions>(minus_ln2, words[i]);
}

Measured device_backend() {
    using Functions = cuda::SpecialFunctions;
    constexpr auto bound = cuda::kGaussianBound;
    // The logarithm's error is absolute above 1/2, of the square of the radius, and relative below, half of it in the radius.
    // Roundoffs: X - n, and half of one in s^2.
    return {"device",
            device_normals,
            device_minus_two_logs,
            {bound.constant, 0, bound.per_radius},
            cuda::kLaplaceBound,
            {bound.smallest, 0xFFFFFFFFu - 8},   // the last words have a square that is no more than rounding
            1.5,
            double{bound.per_inverse_radius} - 2 * M_LN2 * Functions::kLog2Error,
            Functions::kLog2Error / 2 + Functions::kInverseRootError + Functions::kSineError,
            Functions::kLog2Error,
            M_LN2 * Functions::kLog2Error};
}

struct Maxima {
    double radius = 0, angle = 0, laplace = 0;

    void merge(const Maxima& other) {
        radius = std::max(radius, other.radius);
        angle = std::max(angle, other.angle);
        laplace = std::max(laplace, other.laplace);
    }
};

// What the ends of each word's interval are in truth: entry i is the end that words i - 1 and i share.
struct Ends {
    std::vector<double> minus_log = std::vector<double>(kBlock + 2);   // at word / 2^32
    std::vector<double> radius = std::vector<double>(kBlock + 1);
    std::vector<double> cosine = std::vector<double>(kBlock + 1), sine = std::vector<double>(kBlock + 1);
};

struct Lanes {
    std::vector<std::uint32_t> words = std::vector<std::uint32_t>(kBlock);
    std::vector<float> radius = std::vector<float>(kBlock), cosine = std::vector<float>(kBlock), sine = std::vector<float>(kBlock);
    std::vector<float> minus_two_log = std::vector<float>(kBlock);
};

double worse_end(double computed, double end, double other_end) {
    return std::max(std::fabs(computed - end), std::fabs(computed - other_end)) + kReferenceError;
}

// What an error needs of a coefficient of `computed` beside the slack; computed may be 0, of either sign.
double share_beyond(double slack, double error, double computed) {
    return error <= slack ? 0 : (error - slack) / std::fabs(computed);
}

// A block starts at a multiple of kBlock, so that Laplace intervals (two words wide) do not straddle blocks.
void measure_radius_and_laplace(const Measured& backend, std::uint64_t first, const Ends& ends, Lanes& lanes, Maxima& found) {
    backend.normals(lanes.words.data(), lanes.words.data(), kBlock, lanes.radius.data(), lanes.cosine.data(), lanes.sine.data());
    backend.minus_two_logs(lanes.words.data(), kBlock, lanes.minus_two_log.data());
    const double laplace_slack = double{backend.laplace.per_scale} - backend.of_small_log;
    for (std::size_t i = 0; i < kBlock; ++i) {
        const std::uint64_t word = first + i;
        if (word >= backend.window.smallest && word <= backend.window.largest) {
            const double computed = double{lanes.radius[i]};
            const double slack = double{backend.gaussian.per_scale} + backend.per_inverse_radius / computed;
            found.radius = std::max(found.radius, share_beyond(slack, worse_end(computed, ends.radius[i], ends.radius[i + 1]), computed));
        }
        if (word >= kLaplaceWindow.smallest && word <= kLaplaceWindow.largest) {
            const double computed = 0.5 * double{lanes.minus_two_log[i]};
            const std::size_t low = i & ~std::size_t{1};
            const double error = worse_end(computed, ends.minus_log[low], ends.minus_log[low + 2]);
            found.laplace = std::max(found.laplace, share_beyond(laplace_slack, error, computed));
        }
    }
}

void measure_angle(const Measured& backend, const Ends& ends, Lanes& lanes, Maxima& found) {
    backend.normals(lanes.words.data(), lanes.words.data(), kBlock, lanes.radius.data(), lanes.cosine.data(), lanes.sine.data());
    for (std::size_t i = 0; i < kBlock; ++i) {
        found.angle = std::max({found.angle, worse_end(double{lanes.cosine[i]}, ends.cosine[i], ends.cosine[i + 1]),
                                worse_end(double{lanes.sine[i]}, ends.sine[i], ends.sine[i + 1])});
    }
}

double minus_log_of_word(double word) {   // -ln(word / 2^32) without cancellation near 1
    const double below_one = (0x1p32 - word) * 0x1p-32;
    return below_one < 0.25 ? -std::log1p(-below_one) : -std::log(word * 0x1p-32);
}

// Blocks `block`, block + step, ... of the 2^32 words; the first half of them serves the 2^31 angles too.
void sweep(const std::vector<Measured>& backends, std::uint64_t block, std::uint64_t step, std::vector<Maxima>& found) {
    Ends ends;
    Lanes lanes;
    for (; block < (std::uint64_t{1} << 32) / kBlock; block += step) {
        const std::uint64_t first = block * kBlock;
        for (std::size_t i = 0; i < kBlock; ++i) lanes.words[i] = static_cast<std::uint32_t>(first + i);
        for (std::size_t i = 0; i <= kBlock; ++i) {
            ends.minus_log[i] = minus_log_of_word(static_cast<double>(first + i));
            ends.radius[i] = std::sqrt(2 * ends.minus_log[i]);
        }
        for (std::size_t b = 0; b < backends.size(); ++b) measure_radius_and_laplace(backends[b], first, ends, lanes, found[b]);

        if (first >> 31 != 0) continue;
        for (std::size_t i = 0; i <= kBlock; ++i) {
            // The low 31 bits as a signed fraction of a half turn; the last end of the upper half is v = 0 again, from below.
            const auto low = static_cast<std::int64_t>(first + i);
            const bool upper = static_cast<std::int64_t>(first) >= (std::int64_t{1} << 30);
            const double v = static_cast<double>(upper ? low - (std::int64_t{1} << 31) : low) * 0x1p-31;
            ends.cosine[i] = std::cos(M_PI * v);
            ends.sine[i] = std::sin(M_PI * v);
        }
        for (std::size_t b = 0; b < backends.size(); ++b) measure_angle(backends[b], ends, lanes, found[b]);
    }
}

bool report(const Measured& backend, const Maxima& found) {
    constexpr double kSecondOrder = 1 + 0x1p-20;
    const double gaussian = (found.radius + found.angle + backend.of_functions + backend.roundings * kUnit) * kSecondOrder;
    const double laplace = (found.laplace + backend.of_log + 2 * kUnit) * kSecondOrder;
    const double gaussian_share = gaussian / double{backend.gaussian.per_radius};
    const double laplace_share = laplace / double{backend.laplace.per_radius};
    std::printf("%-9s radius %.4e  angle %.4e  needed %.4e  in use %.4e  (%.3f)\n", backend.name, found.radius, found.angle, gaussian,
                double{backend.gaussian.per_radius}, gaussian_share);
    std::printf("%-9s laplace %.4e                    needed %.4e  in use %.4e  (%.3f)\n", "", found.laplace, laplace,
                double{backend.laplace.per_radius}, laplace_share);
    return gaussian_share <= 1 && laplace_share <= 1;
}

}  // namespace

int main(int argc, char** argv) {
    std::uint64_t every = 1;
    if (argc == 3 && std::strcmp(argv[1], "--every") == 0) {
        every = std::strtoull(argv[2], nullptr, 10);
    } else if (argc != 1) {
        every = 0;
    }
    if (every == 0) {
        std::fprintf(stderr, "usage: check_error_bounds [--every K], K >= 1\n");
        return 2;
    }

    std::vector<Measured> backends;
    for (const std::string& name : available_backends()) backends.push_back(backend_of(kernels_by_name(name)));
    backends.push_back(device_backend());

    const unsigned threads = std::max(1u, std::thread::hardware_concurrency());
    const std::vector<std::string> hosts = available_backends();
    std::vector<std::vector<Maxima>> found(threads, std::vector<Maxima>(backends.size()));
    std::vector<std::vector<HalfWordMaxima>> found_of_halves(threads, std::vector<HalfWordMaxima>(hosts.size()));
    std::vector<std::thread> workers;
    for (unsigned t = 0; t < threads; ++t) {
        workers.emplace_back([&, t] {
            sweep(backends, t * every, threads * every, found[t]);
            for (std::size_t b = 0; b < hosts.size(); ++b) {
                sweep_half_words(word_kernels_by_name(hosts[b]), t, threads, every, found_of_halves[t][b]);
            }
        });
    }
    for (std::thread& worker : workers) worker.join();

    std::size_t passed = 0;
    for (std::size_t b = 0; b < backends.size(); ++b) {
        for (unsigned t = 1; t < threads; ++t) found[0][b].merge(found[t][b]);
        passed += report(backends[b], found[0][b]) ? 1 : 0;
    }
    for (std::size_t b = 0; b < hosts.size(); ++b) {
        HalfWordMaxima& halves = found_of_halves[0][b];
        for (unsigned t = 1; t < threads; ++t) halves.merge(found_of_halves[t][b]);
        measure_half_words(word_kernels_by_name(hosts[b]), halves);
        passed += report_half_words(hosts[b].c_str(), halves) ? 1 : 0;
    }
    const std::size_t checks = backends.size() + hosts.size();
    std::printf("%zu passed, %zu failed\n", passed, checks - passed);
    return passed == checks ? 0 : 1;
}
