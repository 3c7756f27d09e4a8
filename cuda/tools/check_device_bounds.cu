// cpp/tools/check_error_bounds.cpp on the device itself: its own level 1, over every word, and level 0 of version 3, over every
// half word.
//
//   check_device_bounds [--every K]     every K-th word (1: all 2^32 radius and Laplace words, all 2^31 angles), and all 2^16 half words; exits 1
//                                       if a constant in use is too small, a value is not finite or a word was left out, 2 if the device could
//                                       not be used, 77 without one
//
// The reference is the device's double log, log1p, sqrt and sincospi. CUDA documents them to 1, 1, 0 and 2 ulp; inside the windows
// they stay below 16, so that is at most 2^-48, which is added to every error. What the verdict turns on is 10^5 times as large.
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "device/level_one.hpp"
#include "device/level_zero.hpp"
#include "device/thread_lane.hpp"
#include "noise/box_muller.hpp"

namespace {

using namespace hushvec;
using hushvec::cuda::DeviceNormalPair;
using hushvec::cuda::laplace_magnitude;
using hushvec::cuda::SpecialFunctions;

constexpr double kReferenceError = 0x1p-48;
constexpr double kUnit = 0x1p-24;   // half an ulp of 1 in float32
constexpr float kMinusTwoLn2 = -1.3862943611198906188f;
constexpr std::uint64_t kWords = std::uint64_t{1} << 32;
constexpr unsigned kMostBlocks = 4096, kThreads = 256;
constexpr std::uint32_t kLastRadius = 0xFFFFFFFFu - 4096;   // from here on the square of a radius is no larger than its error

struct Found {
    unsigned long long radius, angle, laplace;   // doubles as bits: for numbers >= 0 the order is the same
    unsigned long long half_radius, half_angle, half_laplace;
    unsigned long long words;                    // looked at
    unsigned long long not_finite;               // of the computed values; a maximum would pass over NaN
};

__device__ double minus_log_of(double word) {   // -ln(word / 2^32) without cancellation near 1
    const double below_one = (0x1p32 - word) * 0x1p-32;
    return below_one < 0.25 ? -log1p(-below_one) : -log(word * 0x1p-32);
}

__device__ double worse_end(double computed, double end, double other_end) {
    return fmax(fabs(computed - end), fabs(computed - other_end)) + kReferenceError;
}

__device__ void raise(unsigned long long* target, double value) {
    atomicMax(target, static_cast<unsigned long long>(__double_as_longlong(value)));
}

__global__ void sweep(Found* found, std::uint64_t every) {
    double radius = 0, angle = 0, laplace = 0;
    unsigned long long words = 0, not_finite = 0;
    const std::uint64_t first = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x, step = std::uint64_t{gridDim.x} * blockDim.x;
    for (std::uint64_t index = first * every; index < kWords; index += step * every) {
        const auto word = static_cast<std::uint32_t>(index);
        const DeviceNormalPair<SpecialFunctions> normal(kMinusTwoLn2, word, word);
        ++words;
        // Radii of words next to 2^32 may be NaN, which level 1 leaves open.
        const bool in_window = word >= cuda::kGaussianBound.smallest;
        if (!isfinite(normal.cosine) || !isfinite(normal.sine) || (in_window && word < kLastRadius && !isfinite(normal.r))) ++not_finite;
        if (in_window && isfinite(normal.r)) {
            const double computed = normal.r;
            const double error = worse_end(computed, sqrt(2 * minus_log_of(word)), sqrt(2 * minus_log_of(word + 1.0)));
            radius = fmax(radius, (error - double{cuda::kGaussianBound.per_inverse_radius} * normal.inverse_r) / computed);
        }
        if (word >= kLaplaceWindow.smallest && word <= kLaplaceWindow.largest) {
            const double computed = laplace_magnitude<SpecialFunctions>(0.5f * kMinusTwoLn2, word);
            const double low = word & ~1u;   // the interval of a Laplace word is two words wide
            const double error = worse_end(computed, minus_log_of(low), minus_log_of(low + 2));
            // Next to 2^32 the magnitude is 0, or -0.
            const double excess = error - double{cuda::kLaplaceBound.per_scale};
            if (excess > 0) laplace = fmax(laplace, excess / fabs(computed));
        }
        if (word >> 31 == 0) {
            const std::int64_t v = word >> 30 == 0 ? std::int64_t{word} : std::int64_t{word} - (std::int64_t{1} << 31);
            double sine, cosine, next_sine, next_cosine;
            sincospi(static_cast<double>(v) * 0x1p-31, &sine, &cosine);
            sincospi(static_cast<double>(v + 1) * 0x1p-31, &next_sine, &next_cosine);
            angle = fmax(angle, fmax(worse_end(normal.cosine, cosine, next_cosine), worse_end(normal.sine, sine, next_sine)));
        }
    }
    raise(&found->radius, radius);
    raise(&found->angle, angle);
    raise(&found->laplace, laplace);
    atomicAdd(&found->words, words);
    atomicAdd(&found->not_finite, not_finite);
}

__device__ double minus_log_of_share(double u) { return u > 0.75 ? -log1p(u - 1) : -log(u); }

// Level 0 on one half word a thread, at s = 1: what is left of the errors beside the interval's width that the lane computes.
__global__ void sweep_half_words(Found* found, cuda::GaussianLevelZero gaussian, cuda::LaplaceLevelZero laplace) {
    const std::uint32_t half = blockIdx.x * blockDim.x + threadIdx.x;
    const cuda::DeviceHalfPair<SpecialFunctions> pair(gaussian.minus_two_ln2_s2, half << 16 | half);
    if (!isfinite(pair.r) || !isfinite(pair.cosine) || !isfinite(pair.sine)) atomicAdd(&found->not_finite, 1ull);
    if (half > 0 && half << 16 <= cuda::kLargestLevelZeroWord) {
        const double low = minus_log_of_share(half * 0x1p-16), high = minus_log_of_share((half + 1) * 0x1p-16);
        const float width = SpecialFunctions::reciprocal(cuda::Thread::multiply_add(pair.above, gaussian.share, gaussian.offset));
        const double error = worse_end(pair.r, sqrt(2 * low), sqrt(2 * high)) - double{pair.inverse_r} * double{width};
        raise(&found->half_radius, fmax(0.0, error / pair.r));
    }
    const double v = static_cast<double>(static_cast<std::int16_t>(half << 1)) * 0x1p-16;
    double sine, cosine, next_sine, next_cosine;
    sincospi(v, &sine, &cosine);
    sincospi(v + 0x1p-15, &next_sine, &next_cosine);
    raise(&found->half_angle, fmax(worse_end(pair.cosine, cosine, next_cosine), worse_end(pair.sine, sine, next_sine)));
    if (half >= 2) {
        const float odd = cuda::above_2_23(half | 1u, false);
        const double computed = laplace.minus_ln2_s * SpecialFunctions::log2(cuda::Thread::multiply_add(odd, 0x1p-16f, -0x1p7f));
        const std::uint32_t low = half & ~1u;
        const double error = worse_end(computed, minus_log_of_share(low * 0x1p-16), minus_log_of_share((low + 2) * 0x1p-16));
        const double width = double{laplace.per_interval_s} * SpecialFunctions::reciprocal(odd - (0x1p23f + 1));
        raise(&found->half_laplace, fmax(0.0, (error - width) / computed));
    }
}

double as_double(unsigned long long bits) { return std::bit_cast<double>(bits); }

bool report(const char* law, double needed, double in_use) {
    std::printf("%-9s needed %.4e  in use %.4e  (%.3f)\n", law, needed, in_use, needed / in_use);
    return needed <= in_use;
}

bool succeeded(cudaError_t error) {
    if (error != cudaSuccess) std::fprintf(stderr, "check_device_bounds: %s\n", cudaGetErrorString(error));
    return error == cudaSuccess;
}

}  // namespace

int main(int argc, char** argv) {
    std::uint64_t every = argc == 1 ? 1 : 0;
    if (argc == 3 && std::strcmp(argv[1], "--every") == 0) every = std::strtoull(argv[2], nullptr, 10);
    if (every == 0 || every > kWords) {
        std::fprintf(stderr, "usage: check_device_bounds [--every K], 1 <= K <= 2^32\n");
        return 2;
    }
    int devices = 0;
    if (const cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess || devices == 0) {
        std::printf("no CUDA device: %s\n", cudaGetErrorString(error));
        return 77;
    }
    Found* on_device = nullptr;
    Found found = {};
    if (!succeeded(cudaMalloc(&on_device, sizeof found)) || !succeeded(cudaMemset(on_device, 0, sizeof found))) return 2;
    const std::uint64_t words = (kWords + every - 1) / every;
    sweep<<<static_cast<unsigned>(std::min<std::uint64_t>(kMostBlocks, (words + kThreads - 1) / kThreads)), kThreads>>>(on_device, every);
    sweep_half_words<<<65536 / kThreads, kThreads>>>(on_device, cuda::GaussianLevelZero(1.0f), cuda::LaplaceLevelZero(1.0f));
    if (!succeeded(cudaGetLastError()) || !succeeded(cudaMemcpy(&found, on_device, sizeof found, cudaMemcpyDeviceToHost))) return 2;

    constexpr double kSecondOrder = 1 + 0x1p-20;
    const double radius = as_double(found.radius), angle = as_double(found.angle), laplace = as_double(found.laplace);
    std::printf("radius %.4e  angle %.4e  laplace %.4e  words %llu  not finite %llu\n", radius, angle, laplace, found.words, found.not_finite);
    const bool gaussian_holds = report("gaussian", (radius + angle + 1.5 * kUnit) * kSecondOrder, double{cuda::kGaussianBound.per_radius});
    const bool laplace_holds = report("laplace", (laplace + 2 * kUnit) * kSecondOrder, double{cuda::kLaplaceBound.per_radius});
    const double half_radius = as_double(found.half_radius), half_angle = as_double(found.half_angle);
    const double half_laplace = as_double(found.half_laplace);
    std::printf("half words: radius %.4e  angle %.4e  laplace %.4e\n", half_radius, half_angle, half_laplace);
    const double half_needed = (half_radius + half_angle + 1.5 * kUnit) * kSecondOrder;
    const bool half_gaussian_holds = report("level 0", half_needed, double{cuda::kGaussianLevelZeroBound.per_radius});
    const double half_laplace_needed = (half_laplace + 2 * kUnit) * kSecondOrder;
    const bool half_laplace_holds = report("", half_laplace_needed, double{cuda::kLaplaceLevelZeroBound.per_radius});
    const bool all_seen = found.words == words && found.not_finite == 0;
    return gaussian_holds && laplace_holds && half_gaussian_holds && half_laplace_holds && all_seen ? 0 : 1;
}
