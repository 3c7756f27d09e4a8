// How a launcher cuts up the device memory it is given.
#pragma once

#include <cuda_runtime_api.h>

#include "device/open_samples.hpp"
#include "hushvec_cuda/launch.hpp"

namespace hushvec::cuda {

constexpr std::size_t aligned_bytes(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

// What every call needs.
struct CallHeader {
    Report report;
    std::uint64_t nonce;   // that the call took from a state
};

// An empty report.
inline cudaError_t reset_report(Report* report, cudaStream_t stream) {
    static_assert(kNoRow == ~std::uint64_t{0} && offsetof(Report, first_bad_row) == 0);
    const cudaError_t error = cudaMemsetAsync(&report->first_bad_row, 0xFF, sizeof report->first_bad_row, stream);
    if (error != cudaSuccess) return error;
    return cudaMemsetAsync(&report->open_samples, 0, sizeof report->open_samples + sizeof report->overflow, stream);
}

struct Workspace {
    Report* report;
    std::uint64_t* nonce;
    OpenSample* open;
    std::byte* rest;

    static constexpr std::size_t kHeaderBytes = aligned_bytes(sizeof(CallHeader));
    static constexpr std::size_t kOpenBytes = aligned_bytes(kOpenCapacity * sizeof(OpenSample));
    static constexpr std::size_t kFixedBytes = kHeaderBytes + kOpenBytes;

    explicit Workspace(void* memory)
        : report(&static_cast<CallHeader*>(memory)->report),
          nonce(&static_cast<CallHeader*>(memory)->nonce),
          open(reinterpret_cast<OpenSample*>(static_cast<std::byte*>(memory) + kHeaderBytes)),
          rest(static_cast<std::byte*>(memory) + kFixedBytes) {}

    OpenSamples open_samples() const { return {report, open}; }

    cudaError_t reset(cudaStream_t stream) const { return reset_report(report, stream); }
};

// What follows the kernels of an exact call that drew from a state. settle.cu.
cudaError_t settle_taken(const CallStream& source, const OutArgument& out, Law law, ExactGrid grid, const Workspace& workspace, cudaStream_t stream);

}  // namespace hushvec::cuda
