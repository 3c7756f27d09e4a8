#include "device/response_body.hpp"
#include "hushvec_cuda/discrete.hpp"
#include "kernels.cuh"
#include "workspace.hpp"

namespace hushvec::cuda {
namespace {

template <class Body>
__global__ void __launch_bounds__(kResponseThreads, 2) response_kernel(const __grid_constant__ Body body) {
    body.run(blockIdx.x, gridDim.x, DeviceTeam{});
}

template <class Body>
cudaError_t launch_over(std::size_t items, cudaStream_t stream, const Body& body) {
    return launch<response_kernel<Body>>(dim3(striding_blocks(divide_up(items, kResponseThreads))), kResponseThreads, 0, stream, body);
}

// Calls with an unsigned integer of the codes' width.
template <class Call>
cudaError_t with_code_type(const CodesArgument& argument, const Call& call) {
    switch (argument.item_bytes) {
        case 1: return call(std::uint8_t{});
        case 2: return call(std::uint16_t{});
        case 4: return call(std::uint32_t{});
        case 8: return call(std::uint64_t{});
        default: return cudaErrorInvalidValue;
    }
}

}  // namespace

cudaError_t copy_codes(const CodesArgument& argument, std::uint64_t labels, void* memory, cudaStream_t stream) {
    auto* const report = static_cast<Report*>(memory);
    const cudaError_t error = reset_report(report, stream);
    if (error != cudaSuccess || argument.count == 0) return error;
    return with_code_type(argument, [&]<class Code>(Code) {
        const CopyCodesBody<Code> body = {static_cast<const Code*>(argument.codes), static_cast<Code*>(argument.out), argument.count, labels, report};
        return launch_over(argument.count, stream, body);
    });
}

cudaError_t randomized_response(const KeyStream& source, const ResponseLaw& law, const CodesArgument& argument, cudaStream_t stream) {
    if (argument.count == 0) return cudaSuccess;
    return with_code_type(argument, [&]<class Code>(Code) {
        const auto* const codes = static_cast<const Code*>(argument.codes);
        const ResponseBody<Code> body = {{source}, ResponseIntervals(law), codes, static_cast<Code*>(argument.out), argument.count};
        return launch_over(divide_up(argument.count, kGroupSamples) * kGroupBlocks, stream, body);
    });
}

}  // namespace hushvec::cuda
