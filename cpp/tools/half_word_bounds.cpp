#include "half_word_bounds.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "noise/error_bounds.hpp"

namespace hushvec {
namespace {

constexpr std::size_t kHalves = 1 << 16;
constexpr std::size_t kAngles = 1 << 15;         // a half word of angle has a sign beside them
constexpr std::uint32_t kBlock = 4096;           // words at once, of one radius
constexpr std::uint32_t kFewOfAnExponent = 256;   // radii below are always taken: only a few have the same exponent
constexpr double kUnit = 0x1p-24;                // half an ulp of 1 in float32
constexpr double kReferenceError = 0x1p-48;      // of log, sqrt, sin and cos in double; 2^-52 is usual
constexpr double kSecondOrder = 1 + 0x1p-20;

// What the ends of intervals are in truth: entry i is the end that half words i - 1 and i share.
struct Ends {
    std::vector<double> radius = std::vector<double>(kHalves + 1);
    std::vector<double> magnitude = std::vector<double>(kHalves / 2 + 1);            // of Laplace samples
    std::vector<double> cosine = std::vector<double>(kAngles + 1), sine = std::vector<double>(kAngles + 1);   // from -1/2 half turns on

    Ends() {
        for (std::size_t i = 0; i <= kHalves; ++i) radius[i] = std::sqrt(-2 * std::log(static_cast<double>(i) * 0x1p-16));
        for (std::size_t i = 0; i <= kHalves / 2; ++i) magnitude[i] = -std::log(static_cast<double>(i) * 0x1p-15);
        for (std::size_t i = 0; i <= kAngles; ++i) {
            const double v = static_cast<double>(i) * 0x1p-15 - 0.5;
            cosine[i] = std::cos(M_PI * v);
            sine[i] = std::sin(M_PI * v);
        }
    }
};

const Ends& ends() {
    static const Ends all;
    return all;
}

double worse_end(double computed, double end, double other_end) {
    return std::max(std::fabs(computed - end), std::fabs(computed - other_end)) + kReferenceError;
}

bool inside(std::uint32_t radius) {
    const std::uint32_t word = radius << 16;
    return word >= kHalfGaussianWindow.smallest && word <= kHalfGaussianWindow.largest;
}

// Place of the angle of a word in the tables of ends, from -1/2 half turns on.
std::size_t angle_place(std::uint32_t word) { return ((word & 0x7fffu) + kAngles / 2) % kAngles; }

double share(double error, float limit) { return error / (0.5 - double{limit}); }

struct Roundings {
    explicit Roundings(std::size_t size)
        : n{std::vector<float>(size), std::vector<float>(size)}, d{std::vector<float>(size), std::vector<float>(size)}, limit(size), open(size) {}
    HalfRoundings out() { return {{n[0].data(), n[1].data()}, {d[0].data(), d[1].data()}, limit.data(), open.data()}; }
    // s Z as the lane has it: d - (X - n).
    double noise(std::size_t output, std::size_t i, double x) const { return double{d[output][i]} + (double{n[output][i]} - x); }

    std::vector<float> n[2], d[2], limit;
    std::vector<std::uint8_t> open;
};

void measure_laplace_joint(const WordKernels& on_words, const std::vector<std::uint32_t>& halves, const std::vector<std::uint32_t>& exponent,
                           float s, float x, HalfWordMaxima& found) {
    const std::vector<double> xs(halves.size(), double{x});
    Roundings made(halves.size());
    on_words.half_laplace_words(halves.data(), xs.data(), true, halves.size(), s, kHalfLaplaceBound, made.out());
    for (std::size_t i = kHalfLaplaceWindow.smallest; i < halves.size(); ++i) {
        const double magnitude = made.noise(0, i, double{x}) * (i % 2 == 0 ? 1 : -1);
        const double error = worse_end(magnitude, double{s} * ends().magnitude[i / 2], double{s} * ends().magnitude[i / 2 + 1]);
        found.laplace_joint[exponent[i]] = std::max(found.laplace_joint[exponent[i]], share(error, made.limit[i]));
    }
}

// One block of words of one radius. r cos is linear in r, and monotone in the angle between the ends of an interval, because the axes are
// ends of intervals: so the truth lies between its values at the four corners of the word's rectangle.
double worst_corner(const Roundings& made, const std::vector<std::uint32_t>& words, const std::vector<double>& ends_of_output, std::size_t output,
                    double x, double inner, double outer) {
    double worst = 0;
    for (std::size_t i = 0; i < kBlock; ++i) {
        const double sign = (words[i] & 0x8000u) != 0 ? -1 : 1;
        const double noise = sign * made.noise(output, i, x);
        const double* end = ends_of_output.data() + angle_place(words[i]);
        const double errors[4] = {noise - inner * end[0], noise - inner * end[1], noise - outer * end[0], noise - outer * end[1]};
        for (const double error : errors) worst = std::max(worst, std::fabs(error));
    }
    return worst + kReferenceError;
}

struct Case {
    float s, x;
    std::uint64_t every;
};
constexpr Case kCases[] = {{12.8f, 0.0f, 1}, {15.99f, 1000.3f, 32}, {8.0f, -3.4567f, 32}, {0.01f, 1999999.4f, 128}, {100.0f, 0.3f, 128}};

}  // namespace

void HalfWordMaxima::merge(const HalfWordMaxima& other) {
    for (std::size_t e = 0; e < kExponents; ++e) {
        radius[e] = std::max(radius[e], other.radius[e]);
        laplace[e] = std::max(laplace[e], other.laplace[e]);
        joint[e] = std::max(joint[e], other.joint[e]);
        laplace_joint[e] = std::max(laplace_joint[e], other.laplace_joint[e]);
    }
    angle = std::max(angle, other.angle);
    words += other.words;
    open += other.open;
}

void measure_half_words(const WordKernels& on_words, HalfWordMaxima& found) {
    std::vector<std::uint32_t> words(kHalves), exponent(kHalves);
    std::vector<float> radius(kHalves), cosine(kHalves), sine(kHalves), minus_two_log(kHalves);
    for (std::uint32_t i = 0; i < kHalves; ++i) words[i] = i << 16 | (i & 0x7fffu);
    on_words.half_normals(words.data(), kHalves, radius.data(), exponent.data(), cosine.data(), sine.data());
    for (std::uint32_t i = 0; i < kHalves; ++i) {
        if (inside(i)) {
            double& worst = found.radius[exponent[i]];
            worst = std::max(worst, worse_end(double{radius[i]}, ends().radius[i], ends().radius[i + 1]));
        }
        const std::size_t place = angle_place(words[i]);
        found.angle = std::max({found.angle, worse_end(double{cosine[i]}, ends().cosine[place], ends().cosine[place + 1]),
                                worse_end(double{sine[i]}, ends().sine[place], ends().sine[place + 1])});
    }

    for (std::uint32_t i = 0; i < kHalves; ++i) words[i] = i;
    on_words.half_minus_two_logs(words.data(), kHalves, minus_two_log.data(), exponent.data());
    for (std::size_t i = kHalfLaplaceWindow.smallest; i < kHalves; ++i) {
        double& worst = found.laplace[exponent[i]];
        worst = std::max(worst, worse_end(0.5 * double{minus_two_log[i]}, ends().magnitude[i / 2], ends().magnitude[i / 2 + 1]));
    }
    for (const Case& one : kCases) measure_laplace_joint(on_words, words, exponent, one.s, one.x, found);
}

void sweep_half_words(const WordKernels& on_words, std::uint32_t first_radius, std::uint32_t step, std::uint64_t every, HalfWordMaxima& found) {
    std::vector<std::uint32_t> words(kBlock), exponent(kBlock);
    std::vector<float> radius(kBlock), cosine(kBlock), sine(kBlock);
    std::vector<double> xs(kBlock);
    Roundings made(kBlock);
    for (std::uint32_t half = first_radius; half < kHalves; half += step) {
        for (std::uint32_t block = 0; block < kHalves / kBlock; ++block) {
            for (const Case& one : kCases) {
                const bool chosen = (half + block) % (every * one.every) == 0;
                if (!chosen && half >= kFewOfAnExponent) continue;
                for (std::uint32_t i = 0; i < kBlock; ++i) words[i] = half << 16 | (block * kBlock + i);
                std::fill(xs.begin(), xs.end(), double{one.x});
                on_words.half_gaussian_words(words.data(), xs.data(), xs.data(), true, kBlock, one.s, kHalfGaussianBound, made.out());
                if (chosen && one.every == 1) {
                    found.words += kBlock;
                    for (const std::uint8_t open : made.open) found.open += open;
                }
                if (!inside(half)) continue;
                on_words.half_normals(words.data(), 16, radius.data(), exponent.data(), cosine.data(), sine.data());   // of the exponent
                const double inner = double{one.s} * ends().radius[half + 1], outer = double{one.s} * ends().radius[half];
                const double error = std::max(worst_corner(made, words, ends().cosine, 0, double{one.x}, inner, outer),
                                              worst_corner(made, words, ends().sine, 1, double{one.x}, inner, outer));
                found.joint[exponent[0]] = std::max(found.joint[exponent[0]], share(error, made.limit[0]));
            }
        }
    }
}

bool report_half_words(const char* name, const HalfWordMaxima& found) {
    // Roundoffs: r, the product r c, X - n; of Laplace r and X - n.
    const double gaussian = (found.angle + 3 * kUnit) * kSecondOrder / double{kHalfGaussianBound.per_radius};
    const double laplace = 2 * kUnit * kSecondOrder / double{kHalfLaplaceBound.per_radius};
    double worst = std::max(gaussian, laplace);
    std::printf("%-9s level 0: angle %.4e (%.3f of per_radius, Laplace %.3f), open at s = 12.8: %.3f %% of %llu words\n", name, found.angle,
                gaussian, laplace, 100.0 * static_cast<double>(found.open) / static_cast<double>(found.words),
                static_cast<unsigned long long>(found.words));
    std::printf("%-9s exponent  radius     in use         joint   laplace    in use         joint\n", "");
    for (std::size_t e = 0; e < kExponents; ++e) {
        if (found.radius[e] == 0 && found.laplace[e] == 0) continue;
        const double width = double{kHalfGaussianBound.per_scale[e % 16]}, laplace_width = double{kHalfLaplaceBound.per_scale[e % 16]};
        std::printf("%-9s %8zu  %.3e  %.3e %.3f  %.3f   %.3e  %.3e %.3f  %.3f\n", "", e, found.radius[e], width, found.radius[e] / width,
                    found.joint[e], found.laplace[e], laplace_width, found.laplace[e] / laplace_width, found.laplace_joint[e]);
        worst = std::max({worst, found.radius[e] / width, found.joint[e], found.laplace[e] / laplace_width, found.laplace_joint[e]});
    }
    return worst <= 1;
}

}  // namespace hushvec
