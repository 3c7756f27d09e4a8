// Bodies as kernels, and their launch. An error of the launch is returned; nothing waits.
#pragma once

#include <cuda_runtime.h>

#include "hushvec_cuda/launch.hpp"

#include "device/fill_body.hpp"
#include "device/half_rows_body.hpp"
#include "device/ladder_body.hpp"
#include "device/refine_body.hpp"
#include "device/rows_body.hpp"
#include "device/settle_body.hpp"
#include "device/stream_body.hpp"
#include "device/sum_body.hpp"
#include "workspace.hpp"

namespace hushvec::cuda {

// The second bound of the others is a cap on registers, as tiles_at_once is for tiles.
template <class Body>
__global__ void __launch_bounds__(kFillThreads, 2) fill_kernel(const __grid_constant__ Body body) {
    body.run(blockIdx.x, gridDim.x, DeviceTeam{});
}

template <class Stored, class Body>
__global__ void __launch_bounds__(Body::kThreads, tiles_at_once<Stored>(Body::kThreads)) rows_kernel(const __grid_constant__ Body body) {
    extern __shared__ uint4 dynamic_memory[];
    body.run(blockIdx.x, TileMemory<Stored>(dynamic_memory, body.shape), DeviceTeam{});
}

template <class Body>
__global__ void __launch_bounds__(kStreamThreads, 2) warps_kernel(const __grid_constant__ Body body) {
    body.run(blockIdx.x, DeviceTeam{});
}

template <class Body>
__global__ void __launch_bounds__(kStreamThreads, 2) stream_kernel(const __grid_constant__ Body body) {
    body.run(blockIdx.x, gridDim.x, DeviceTeam{});
}

// The ladder behind a kernel, and behind it the multiprecision level.
template <class Body>
__global__ void __launch_bounds__(kLadderThreads) ladder_kernel(const __grid_constant__ Body body) {
    body.run(blockIdx.x, gridDim.x, DeviceTeam{});
}

template <class Body>
__global__ void __launch_bounds__(1) settle_kernel(const __grid_constant__ Body body) { body.run(); }

// Lists a kernel for load_kernels. load_kernels.cu.
bool list_kernel(const void* kernel);

template <auto kKernel>
inline const bool kListed = list_kernel(reinterpret_cast<const void*>(kKernel));

template <auto kKernel, class... Arguments>
cudaError_t launch(dim3 blocks, unsigned threads, std::size_t shared_bytes, cudaStream_t stream, const Arguments&... arguments) {
    static_cast<void>(&kListed<kKernel>);   // it is listed before main because it is named here
    cudaLaunchConfig_t configuration = {};
    configuration.gridDim = blocks;
    configuration.blockDim = dim3(threads);
    configuration.dynamicSmemBytes = shared_bytes;
    configuration.stream = stream;
    return cudaLaunchKernelEx(&configuration, kKernel, arguments...);
}

// Blocks for a kernel that strides over its work: several to each multiprocessor, none without work.
inline unsigned striding_blocks(std::size_t useful, std::size_t of_multiprocessor = 8) {
    int device = 0, multiprocessors = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return 1;
    if (cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) return 1;
    const std::size_t most = of_multiprocessor * static_cast<std::size_t>(multiprocessors);
    return static_cast<unsigned>(useful < 1 ? 1 : (useful < most ? useful : most));
}

constexpr std::size_t divide_up(std::size_t n, std::size_t by) { return (n + by - 1) / by; }

// The ladder for what a workspace has room for.
template <class Body>
cudaError_t launch_ladder_body(const Body& body, const Workspace& workspace, cudaStream_t stream) {
    const unsigned blocks = striding_blocks(divide_up(2 * std::size_t{workspace.pair_capacity}, kLadderThreads));
    return launch<ladder_kernel<Body>>(dim3(blocks), kLadderThreads, 0, stream, body);
}

// The first step of every call: what its kernels draw from. A state's nonce is taken on the device, into `nonce`. take.cu.
cudaError_t take(const NoiseSource& source, std::uint64_t* nonce, cudaStream_t stream, CallStream& taken);

// out = scale * Z from what was taken; out.count > 0. fill.cu.
cudaError_t fill_from(const CallStream& taken, Law law, double scale, const OutArgument& out, cudaStream_t stream);

}  // namespace hushvec::cuda
