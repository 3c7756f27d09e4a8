// How many pairs of samples leave level 1 for the ladder, counted on the device as the kernels list them.
//
//   count_open_samples     a line for each law and s = sigma / g: samples, pairs of them with one that leaves, one pair in how many samples
//
// X is 0: at s >= 64 the fraction of s Z is as good as uniform, and X does not change that. The stream is a fixed one.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <limits>

#include "device/fill_body.hpp"

namespace {

using namespace hushvec;
using namespace hushvec::cuda;

constexpr std::size_t kSamples = std::size_t{1} << 30;
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

// Its list has no room: only its counter counts.
template <class Noise>
bool count(const char* law, float s, Noise noise, float* out) {
    KeyStream stream;
    for (std::uint32_t i = 0; i < 8; ++i) stream.key[i] = 0x9E3779B9u * (i + 1);
    stream.nonce = 1;
    stream.cipher = Cipher::chacha12;
    std::uint32_t pairs = 0;
    if (!succeeded(cudaMemset(noise.open.listed, 0, sizeof pairs))) return false;
    using Body = FillBody<float, Noise>;
    count_kernel<<<4096, kFillThreads>>>(Body{{stream}, noise, out, kSamples});
    if (!succeeded(cudaGetLastError()) || !succeeded(cudaMemcpy(&pairs, noise.open.listed, sizeof pairs, cudaMemcpyDeviceToHost))) return false;
    const double one_in = pairs == 0 ? std::numeric_limits<double>::infinity() : static_cast<double>(kSamples) / pairs;
    std::printf("%-9s s %.1f  samples %zu  leave level 1 %u pairs  one in %.0f\n", law, double{s}, kSamples, pairs, one_in);
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
    std::uint32_t* counters = nullptr;   // of pairs, and the flag of a list without room
    if (!succeeded(cudaMalloc(&out, kSamples * sizeof *out)) || !succeeded(cudaMalloc(&counters, 2 * sizeof *counters))) return 2;
    const OpenPairs open = {nullptr, 0, counters, counters + 1};
    for (const float s : kScales) {
        if (!count("gaussian", s, ExactGaussian<float>{GaussianLevelOne(s), 1.0f, open}, out)) return 2;
        if (!count("laplacian", s, ExactLaplace<float>{LaplaceLevelOne(s), 1.0f, open}, out)) return 2;
    }
    return 0;
}
