// How many pairs of samples leave level 1 for the ladder, counted on the device as the kernels list them.
//
//   count_open_samples [--samples N]     a line for each law and s = sigma / g: samples (2^30), pairs of them with one that leaves,
//                                        one pair in how many samples
//
// X is 0: at s >= 64 the fraction of s Z is as good as uniform, and X does not change that. The stream is a fixed one.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "device/fill_body.hpp"

namespace {

using namespace hushvec;
using namespace hushvec::cuda;

constexpr std::size_t kSamples = std::size_t{1} << 30, kMostBlocks = 4096;
// The ends of the range that exact_grid leaves s in, and the s of sigma = 0.6.
constexpr float kScales[] = {64.0f, 76.8f, 128.0f};

template <class Body>
__global__ void __launch_bounds__(kFillThreads) count_kernel(const __grid_constant__ Body body) {
    body.run(blockIdx.x, gridDim.x, DeviceTeam{});
}

bool succeeded(cudaError_t error) {
    if (error != cudaSuccess) std::fprintf(stderr, "count_open_samples: %s\n", cudaGetErrorString(error));
    return error == cudaSuccess;
}

template <class Noise>
bool count(const char* law, float s, Noise noise, float* out, std::size_t samples) {
    KeyStream stream;
    for (std::uint32_t i = 0; i < 8; ++i) stream.key[i] = 0x9E3779B9u * (i + 1);
    stream.nonce = 1;
    stream.cipher = Cipher::chacha12;
    std::uint32_t pairs = 0;
    if (!succeeded(cudaMemset(noise.open.listed, 0, sizeof pairs))) return false;
    using Body = FillBody<float, Noise>;
    const std::size_t blocks = std::min(kMostBlocks, samples / (kFillThreads / kGroupBlocks * kGroupSamples) + 1);
    count_kernel<<<static_cast<unsigned>(blocks), kFillThreads>>>(Body{{stream}, noise, out, samples});
    if (!succeeded(cudaGetLastError()) || !succeeded(cudaMemcpy(&pairs, noise.open.listed, sizeof pairs, cudaMemcpyDeviceToHost))) return false;
    const double one_in = pairs == 0 ? std::numeric_limits<double>::infinity() : static_cast<double>(samples) / pairs;
    std::printf("%-9s s %.1f  samples %zu  leave level 1 %u pairs  one in %.0f\n", law, double{s}, samples, pairs, one_in);
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    std::size_t samples = argc == 1 ? kSamples : 0;
    if (argc == 3 && std::strcmp(argv[1], "--samples") == 0) samples = std::strtoull(argv[2], nullptr, 10);
    if (samples == 0 || samples > kSamples) {
        std::fprintf(stderr, "usage: count_open_samples [--samples N], 1 <= N <= 2^30\n");
        return 2;
    }
    int devices = 0;
    if (const cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess || devices == 0) {
        std::printf("no CUDA device: %s\n", cudaGetErrorString(error));
        return 77;
    }
    float* out = nullptr;
    OpenPair* list = nullptr;
    std::uint32_t* counters = nullptr;   // of pairs, and the flag of a full list
    const auto capacity = static_cast<std::uint32_t>(samples / 256 + 64);   // some 1 in 2,000 are open
    if (!succeeded(cudaMalloc(&out, samples * sizeof *out)) || !succeeded(cudaMalloc(&counters, 2 * sizeof *counters)) ||
        !succeeded(cudaMalloc(&list, capacity * sizeof *list))) return 2;
    const OpenPairs open = {list, capacity, counters, counters + 1};
    for (const float s : kScales) {
        if (!count("gaussian", s, ExactGaussian<float>{GaussianLevelOne(s), 1.0f, open}, out, samples)) return 2;
        if (!count("laplacian", s, ExactLaplace<float>{LaplaceLevelOne(s), 1.0f, open}, out, samples)) return 2;
    }
    return 0;
}
