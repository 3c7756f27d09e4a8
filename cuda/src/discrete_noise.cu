#include <algorithm>
#include <limits>
#include <vector>

#include "device/discrete_body.hpp"
#include "discrete/staircase.hpp"
#include "hushvec_cuda/discrete.hpp"
#include "kernels.cuh"
#include "parallel/threads.hpp"
#include "workspace.hpp"

namespace hushvec::cuda {
namespace {

// The memory of a call.
struct DiscreteWorkspace {
    Report* report;
    std::uint32_t* guide;
    OpenInteger* list;

    static constexpr std::size_t kReportBytes = aligned_bytes(sizeof(Report)), kGuideBytes = aligned_bytes(sizeof(WordGuide));

    explicit DiscreteWorkspace(void* memory)
        : report(static_cast<Report*>(memory)),
          guide(reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(memory) + kReportBytes)),
          list(reinterpret_cast<OpenInteger*>(static_cast<std::byte*>(memory) + kReportBytes + kGuideBytes)) {}
};

template <class Body>
__global__ void __launch_bounds__(kDiscreteThreads, 2) discrete_kernel(const __grid_constant__ Body body) {
    body.run(blockIdx.x, gridDim.x, DeviceTeam{});
}

template <class Body>
cudaError_t launch_over(std::size_t items, cudaStream_t stream, const Body& body) {
    return launch<discrete_kernel<Body>>(dim3(striding_blocks(divide_up(items, kDiscreteThreads))), kDiscreteThreads, 0, stream, body);
}

template <class Call>
cudaError_t with_integer_type(const IntegersArgument& argument, const Call& call) {
    return argument.item_bytes == sizeof(std::int32_t) ? call(std::int32_t{}) : call(std::int64_t{});
}

}  // namespace

std::size_t discrete_workspace_bytes(std::size_t count) {
    return DiscreteWorkspace::kReportBytes + DiscreteWorkspace::kGuideBytes + aligned_bytes(open_integer_capacity(count) * sizeof(OpenInteger));
}

cudaError_t discrete_noise(const KeyStream& source, DiscreteLaw law, double scale, const IntegersArgument& argument, void* memory, cudaStream_t stream) {
    const Staircase& stairs = staircase_of(law, scale);
    const DiscreteWorkspace workspace(memory);
    cudaError_t error = reset_report(workspace.report, stream);
    if (error != cudaSuccess || argument.count == 0) return error;
    error = cudaMemcpyAsync(workspace.guide, stairs.guide.entry, sizeof stairs.guide.entry, cudaMemcpyHostToDevice, stream);
    if (error != cudaSuccess) return error;
    return with_integer_type(argument, [&]<class Integer>(Integer) {
        const DiscreteBody<Integer> body = {{source}, workspace.guide, stairs.cell_bits, stairs.low_bits, static_cast<Integer*>(argument.out), argument.count, workspace.report, workspace.list, open_integer_capacity(argument.count)};
        return launch_over(divide_up(argument.count, kGroupSamples) * kGroupBlocks, stream, body);
    });
}

cudaError_t settle_discrete(const KeyStream& source, DiscreteLaw law, double scale, const IntegersArgument& argument, const Report& report,
                            void* memory, cudaStream_t stream) {
    const Staircase& stairs = staircase_of(law, scale);
    const DiscreteWorkspace workspace(memory);
    std::vector<OpenInteger> open(std::min<std::size_t>(report.open_samples, open_integer_capacity(argument.count)));
    const std::size_t bytes = open.size() * sizeof(OpenInteger);
    cudaError_t error = cudaMemcpyAsync(open.data(), workspace.list, bytes, cudaMemcpyDeviceToHost, stream);
    if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
    if (error != cudaSuccess) return error;

    const std::int64_t most = argument.item_bytes == sizeof(std::int32_t) ? std::numeric_limits<std::int32_t>::max() : std::numeric_limits<std::int64_t>::max();
    constexpr std::size_t kSamplesOfOpenOne = 256;   // it takes as long as so many that their words decide
    std::vector<SettledInteger> settled(open.size());
    parallel_ranges(open.size(), kSamplesOfOpenOne, [&] {
        return [&, attempts = LoneBlocks(source, domain::kDiscreteAttempts)](std::size_t begin, std::size_t end) mutable {
            for (std::size_t i = begin; i < end; ++i) {
                const std::int64_t k = hushvec::settle_discrete(attempts, stairs, open[i].sample, open[i].word, open[i].low);
                settled[i] = {open[i].sample, std::clamp(k, -most, most)};
            }
        };
    });
    error = cudaMemcpyAsync(workspace.list, settled.data(), bytes, cudaMemcpyHostToDevice, stream);
    if (error == cudaSuccess) {
        error = with_integer_type(argument, [&]<class Integer>(Integer) {
            const SettledIntegersBody<Integer> body = {static_cast<Integer*>(argument.out), reinterpret_cast<SettledInteger*>(workspace.list), open.size()};
            return launch_over(open.size(), stream, body);
        });
    }
    const cudaError_t waited = cudaStreamSynchronize(stream);   // for the vectors
    return error != cudaSuccess ? error : waited;
}

}  // namespace hushvec::cuda
