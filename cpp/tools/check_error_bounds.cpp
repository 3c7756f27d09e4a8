// Measures how far the float32 lanes are from the truth, over every word, and compares with the constants in use.
//
//   check_error_bounds [--every K]     every K-th block of 4096 words (1: all 2^32 radius and Laplace words, all 2^31 angles)
//
// For each backend this machine runs, with both ends of the interval that a word stands for:
//   radius   rho = max (|computed - true| - per_scale) / computed     over the words inside the window
//   angle    tau = max |computed - true| of cosine and sine
//   laplace  rho of the magnitude, likewise
// and needed = rho + tau + roundings (docs/proofs/level1_bound.md), to be at most per_radius. Exits 1 if any constant is too small.
// The device's lane is measured too, as the host computes it; its square root may be worse on a device by a documented amount,
// which is added (cuda/src/device/error_bounds.hpp).
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

#include "device/error_bounds.hpp"
#include "device/thread_lane.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/dispatch.hpp"
#include "noise/word_kernels.hpp"

namespace {

using namespace hushvec;

constexpr std::size_t kBlock = 4096;
constexpr double kUnit = 0x1p-24;               // half an ulp of 1 in float32
constexpr double kReferenceError = 0x1p-48;     // of log, sqrt, sin and cos in double, absolute here; 2^-52 is usual

// What a sweep and its report need of a device's lane.
Kernels device_kernels() {
    Kernels kernels = {};
    kernels.name = "device";
    kernels.gaussian_bound = cuda::kGaussianBound;
    kernels.laplace_bound = cuda::kLaplaceBound;
    kernels.normals = normals_of_words<cuda::Thread>;
    kernels.minus_two_logs = minus_two_logs_of_words<cuda::Thread>;
    return kernels;
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

// A block starts at a multiple of kBlock, so that Laplace intervals (two words wide) do not straddle blocks.
void measure_radius_and_laplace(const Kernels& kernels, std::uint64_t first, const Ends& ends, Lanes& lanes, Maxima& found) {
    kernels.normals(lanes.words.data(), lanes.words.data(), kBlock, lanes.radius.data(), lanes.cosine.data(), lanes.sine.data());
    kernels.minus_two_logs(lanes.words.data(), kBlock, lanes.minus_two_log.data());
    const double radius_slack = double{kernels.gaussian_bound.per_scale};
    const double laplace_slack = double{kernels.laplace_bound.per_scale};
    for (std::size_t i = 0; i < kBlock; ++i) {
        const std::uint64_t word = first + i;
        if (word >= kGaussianWindow.smallest && word <= kGaussianWindow.largest) {
            const double computed = double{lanes.radius[i]};
            found.radius = std::max(found.radius, (worse_end(computed, ends.radius[i], ends.radius[i + 1]) - radius_slack) / computed);
        }
        if (word >= kLaplaceWindow.smallest && word <= kLaplaceWindow.largest) {
            const double computed = 0.5 * double{lanes.minus_two_log[i]};
            const std::size_t low = i & ~std::size_t{1};
            const double error = worse_end(computed, ends.minus_log[low], ends.minus_log[low + 2]);
            found.laplace = std::max(found.laplace, (error - laplace_slack) / computed);
        }
    }
}

void measure_angle(const Kernels& kernels, const Ends& ends, Lanes& lanes, Maxima& found) {
    kernels.normals(lanes.words.data(), lanes.words.data(), kBlock, lanes.radius.data(), lanes.cosine.data(), lanes.sine.data());
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
void sweep(const std::vector<const Kernels*>& backends, std::uint64_t block, std::uint64_t step, std::vector<Maxima>& found) {
    Ends ends;
    Lanes lanes;
    for (; block < (std::uint64_t{1} << 32) / kBlock; block += step) {
        const std::uint64_t first = block * kBlock;
        for (std::size_t i = 0; i < kBlock; ++i) lanes.words[i] = static_cast<std::uint32_t>(first + i);
        for (std::size_t i = 0; i <= kBlock; ++i) {
            ends.minus_log[i] = minus_log_of_word(static_cast<double>(first + i));
            ends.radius[i] = std::sqrt(2 * ends.minus_log[i]);
        }
        for (std::size_t b = 0; b < backends.size(); ++b) measure_radius_and_laplace(*backends[b], first, ends, lanes, found[b]);

        if (first >> 31 != 0) continue;
        for (std::size_t i = 0; i <= kBlock; ++i) {
            // The low 31 bits as a signed fraction of a half turn; the last end of the upper half is v = 0 again, from below.
            const auto low = static_cast<std::int64_t>(first + i);
            const bool upper = static_cast<std::int64_t>(first) >= (std::int64_t{1} << 30);
            const double v = static_cast<double>(upper ? low - (std::int64_t{1} << 31) : low) * 0x1p-31;
            ends.cosine[i] = std::cos(M_PI * v);
            ends.sine[i] = std::sin(M_PI * v);
        }
        for (std::size_t b = 0; b < backends.size(); ++b) measure_angle(*backends[b], ends, lanes, found[b]);
    }
}

bool report(const Kernels& kernels, const Maxima& found) {
    // Without a fused multiply-add the product r c is rounded too. Unit roundoffs: r, X - n, and that product.
    const bool fused = std::strcmp(kernels.name, "portable") != 0;
    constexpr double kSecondOrder = 1 + 0x1p-20;
    const double root = std::strcmp(kernels.name, "device") == 0 ? cuda::kDeviceRootExcess : 0;
    const double gaussian = (found.radius + found.angle + root + (fused ? 2 : 3) * kUnit) * kSecondOrder;
    const double laplace = (found.laplace + 2 * kUnit) * kSecondOrder;
    const double gaussian_share = gaussian / double{kernels.gaussian_bound.per_radius};
    const double laplace_share = laplace / double{kernels.laplace_bound.per_radius};
    std::printf("%-9s radius %.4e  angle %.4e  needed %.4e  in use %.4e  (%.3f)\n", kernels.name, found.radius, found.angle, gaussian,
                double{kernels.gaussian_bound.per_radius}, gaussian_share);
    std::printf("%-9s laplace %.4e                    needed %.4e  in use %.4e  (%.3f)\n", "", found.laplace, laplace,
                double{kernels.laplace_bound.per_radius}, laplace_share);
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

    std::vector<const Kernels*> backends;
    for (const std::string& name : available_backends()) backends.push_back(&kernels_by_name(name));
    const Kernels device = device_kernels();
    backends.push_back(&device);

    const unsigned threads = std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::vector<Maxima>> found(threads, std::vector<Maxima>(backends.size()));
    std::vector<std::thread> workers;
    for (unsigned t = 0; t < threads; ++t) {
        workers.emplace_back([&, t] { sweep(backends, t * every, threads * every, found[t]); });
    }
    for (std::thread& worker : workers) worker.join();

    std::size_t passed = 0;
    for (std::size_t b = 0; b < backends.size(); ++b) {
        for (unsigned t = 1; t < threads; ++t) found[0][b].merge(found[t][b]);
        passed += report(*backends[b], found[0][b]) ? 1 : 0;
    }
    std::printf("%zu passed, %zu failed\n", passed, backends.size() - passed);
    return passed == backends.size() ? 0 : 1;
}
