// How many samples leave level 1 for the ladder: the coded accept test, counted on the device.
//
//   count_open_samples     a line for each law and s = sigma / g: samples, those that leave, one in how many
//
// X is 0: at s >= 64 the fraction of s Z is as good as uniform, and X does not change that. The stream is a fixed one.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <limits>

#include "device/error_bounds.hpp"
#include "device/fill_body.hpp"

namespace {

using namespace hushvec;
using namespace hushvec::cuda;

constexpr std::size_t kSamples = std::size_t{1} << 30;
// The ends of the range that exact_grid leaves s in, and the s of sigma = 0.6.
constexpr float kScales[] = {64.0f, 76.8f, 128.0f};

struct CountGaussian {
    static constexpr bool kNeedsLowWords = false;
    ExactScale<Thread> scale;
    std::uint32_t* open;

    HUSHVEC_INLINE Pair<float> operator()(const CallStream&, SamplePosition at, const std::uint32_t* words, const std::uint32_t*,
                                          float x_first, float x_second) const {
        using Elements = Float32Elements<Thread>;
        const std::uint32_t radius_word = words[at.word], angle_word = words[at.word + 8];
        const auto normal = normal_pair<Thread>(radius_word, angle_word);
        const auto rounding = round_gaussian_pair<Thread>(scale, normal, radius_word, angle_word, Elements{x_first}, Elements{x_second});
        if (rounding.open) {
            const bool both = outside_window<Thread, kGaussianWindow>(radius_word);
            for (const float d : {rounding.d.cosine, rounding.d.sine}) {
                if (both || Thread::not_less(Thread::magnitude(d), rounding.limit)) atomic_increment(open);
            }
        }
        return {rounding.n.cosine, rounding.n.sine};
    }
};

struct CountLaplace {
    static constexpr bool kNeedsLowWords = false;
    ExactScale<Thread> scale;
    std::uint32_t* open;

    HUSHVEC_INLINE Pair<float> operator()(const CallStream&, SamplePosition at, const std::uint32_t* words, const std::uint32_t*,
                                          float x_first, float x_second) const {
        return {one(words[at.word], x_first), one(words[at.word + 8], x_second)};
    }

private:
    HUSHVEC_INLINE float one(std::uint32_t word, float x) const {
        const auto rounding = round_laplace<Thread>(scale, word, Float32Elements<Thread>{x});
        if (rounding.open) atomic_increment(open);
        return rounding.n;
    }
};

template <class Body>
__global__ void __launch_bounds__(kFillThreads) count_kernel(const __grid_constant__ Body body) {
    body.run(blockIdx.x, gridDim.x, DeviceTeam{});
}

bool succeeded(cudaError_t error) {
    if (error != cudaSuccess) std::fprintf(stderr, "count_open_samples: %s\n", cudaGetErrorString(error));
    return error == cudaSuccess;
}

template <class Noise>
bool count(const char* law, float s, ErrorBound bound, float* out, std::uint32_t* open) {
    KeyStream stream;
    for (std::uint32_t i = 0; i < 8; ++i) stream.key[i] = 0x9E3779B9u * (i + 1);
    stream.nonce = 1;
    stream.cipher = Cipher::chacha12;
    std::uint32_t left = 0;
    if (!succeeded(cudaMemset(open, 0, sizeof *open))) return false;
    using Body = FillBody<float, Noise>;
    count_kernel<<<4096, kFillThreads>>>(Body{{stream, nullptr}, {ExactScale<Thread>(s, bound), open}, out, kSamples});
    if (!succeeded(cudaGetLastError()) || !succeeded(cudaMemcpy(&left, open, sizeof left, cudaMemcpyDeviceToHost))) return false;
    const double one_in = left == 0 ? std::numeric_limits<double>::infinity() : static_cast<double>(kSamples) / left;
    std::printf("%-9s s %.1f  samples %zu  leave level 1 %u  one in %.0f\n", law, double{s}, kSamples, left, one_in);
    return true;
}

}  // namespace

int main() {
    int devices = 0;
    if (const cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess || devices == 0) {
        std::printf("no CUDA device: %s\n", cudaGetErrorString(error));
        return 77;
    }
    float* out = nullptr;
    std::uint32_t* open = nullptr;
    if (!succeeded(cudaMalloc(&out, kSamples * sizeof *out)) || !succeeded(cudaMalloc(&open, sizeof *open))) return 2;
    for (const float s : kScales) {
        if (!count<CountGaussian>("gaussian", s, cuda::kGaussianBound, out, open)) return 2;
        if (!count<CountLaplace>("laplacian", s, cuda::kLaplaceBound, out, open)) return 2;
    }
    return 0;
}
