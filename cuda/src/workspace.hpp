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
    std::uint32_t open_pairs;   // that level 1 left to the ladder
    std::uint64_t nonce;        // that the call took from a state
};

// Nothing reported, and the counters in the bytes behind are 0.
inline cudaError_t reset_report(Report* report, cudaStream_t stream, std::size_t bytes_behind = 0) {
    static_assert(kNoRow == ~std::uint64_t{0} && offsetof(Report, first_bad_row) == 0);
    const cudaError_t error = cudaMemsetAsync(&report->first_bad_row, 0xFF, sizeof report->first_bad_row, stream);
    if (error != cudaSuccess) return error;
    return cudaMemsetAsync(&report->open_samples, 0, sizeof *report - offsetof(Report, open_samples) + bytes_behind, stream);
}

inline cudaError_t reset(CallHeader* header, cudaStream_t stream) {
    static_assert(offsetof(CallHeader, report) == 0 && offsetof(CallHeader, open_pairs) == sizeof(Report));
    return reset_report(&header->report, stream, sizeof header->open_pairs);
}

// How many pairs a call has room to list.
struct PairCapacity {
    std::size_t pairs;
};

struct Workspace {
    CallHeader* header;
    OpenSample* samples;
    OpenPair* pairs;
    std::uint32_t pair_capacity;
    std::byte* rest;

    static constexpr std::size_t kHeaderBytes = aligned_bytes(sizeof(CallHeader));
    static constexpr std::size_t kSampleBytes = aligned_bytes(kOpenCapacity * sizeof(OpenSample));

    // For a call on so many samples.
    Workspace(void* memory, std::size_t count) : Workspace(memory, PairCapacity{open_pair_capacity(count)}) {}

    Workspace(void* memory, PairCapacity capacity)
        : header(static_cast<CallHeader*>(memory)),
          samples(reinterpret_cast<OpenSample*>(static_cast<std::byte*>(memory) + kHeaderBytes)),
          pairs(reinterpret_cast<OpenPair*>(static_cast<std::byte*>(memory) + kHeaderBytes + kSampleBytes)),
          pair_capacity(static_cast<std::uint32_t>(capacity.pairs)),
          rest(static_cast<std::byte*>(memory) + fixed_bytes(capacity)) {}

    static std::size_t fixed_bytes(std::size_t count) { return fixed_bytes(PairCapacity{open_pair_capacity(count)}); }
    static std::size_t fixed_bytes(PairCapacity capacity) { return kHeaderBytes + kSampleBytes + aligned_bytes(capacity.pairs * sizeof(OpenPair)); }

    Report* report() const { return &header->report; }
    OpenPairs open_pairs() const { return {pairs, pair_capacity, &header->open_pairs, &header->report.overflow}; }
    OpenSamples open_samples() const { return {report(), samples}; }
};

// What follows the kernels of an exact call: the ladder for what level 1 left open, and where the call drew from a state, so that no host
// looks at its report, the multiprecision level too. settle.cu.
cudaError_t run_ladder(const CallStream& source, const OutArgument& out, Law law, ExactGrid grid, const Workspace& workspace, cudaStream_t stream);

// The same in version 3, where level 0 left pairs open.
cudaError_t run_refinement(const CallStream& source, const OutArgument& out, Law law, ExactGrid grid, const Workspace& workspace,
                           cudaStream_t stream);

// As run_ladder and run_refinement for the release of a sum, and what settle is for one array, part by part: the list counts pairs through
// all of them.
struct OneOutput;
struct SumParts;
cudaError_t run_ladder(const SumParts& parts, ExactGrid grid, const Workspace& workspace, cudaStream_t stream);
cudaError_t run_refinement(const SumParts& parts, ExactGrid grid, const Workspace& workspace, cudaStream_t stream);
cudaError_t settle_part(const OneOutput& part, std::uint64_t first_pair, bool is_last, ExactGrid grid, const Workspace& workspace, cudaStream_t stream);

}  // namespace hushvec::cuda
