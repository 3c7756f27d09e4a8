// How a launcher cuts up the device memory it is given.
#pragma once

#include <cuda_runtime_api.h>

#include "device/open_samples.hpp"

namespace hushvec::cuda {

constexpr std::size_t aligned_bytes(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

struct Workspace {
    Report* report;
    OpenSample* open;
    std::byte* rest;

    static constexpr std::size_t kReportBytes = aligned_bytes(sizeof(Report));
    static constexpr std::size_t kOpenBytes = aligned_bytes(kOpenCapacity * sizeof(OpenSample));
    static constexpr std::size_t kFixedBytes = kReportBytes + kOpenBytes;

    explicit Workspace(void* memory)
        : report(static_cast<Report*>(memory)),
          open(reinterpret_cast<OpenSample*>(static_cast<std::byte*>(memory) + kReportBytes)),
          rest(static_cast<std::byte*>(memory) + kFixedBytes) {}

    OpenSamples open_samples() const { return {report, open}; }

    // An empty report.
    cudaError_t reset(cudaStream_t stream) const {
        static_assert(kNoRow == ~std::uint64_t{0} && offsetof(Report, first_bad_row) == 0);
        const cudaError_t error = cudaMemsetAsync(&report->first_bad_row, 0xFF, sizeof report->first_bad_row, stream);
        if (error != cudaSuccess) return error;
        return cudaMemsetAsync(&report->open_samples, 0, sizeof report->open_samples + sizeof report->overflow, stream);
    }
};

}  // namespace hushvec::cuda
