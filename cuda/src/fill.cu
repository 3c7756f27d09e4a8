#include "kernels.cuh"
#include "workspace.hpp"

namespace hushvec::cuda {
namespace {

template <class Stored, class Noise>
cudaError_t fill_with(const CallStream& source, const Noise& noise, const OutArgument& out, cudaStream_t stream) {
    using Body = FillBody<Stored, Noise>;
    const Body body = {source, noise, static_cast<Stored*>(out.data), out.count};
    const unsigned blocks = striding_blocks(divide_up(out.count, kGroupSamples * (kFillThreads / kGroupBlocks)));
    return launch<fill_kernel<Body>>(dim3(blocks), kFillThreads, 0, stream, body);
}

}  // namespace

std::size_t fill_workspace_bytes() { return Workspace::kHeaderBytes; }

cudaError_t fill_from(const CallStream& taken, Law law, double scale, const OutArgument& out, cudaStream_t stream) {
    return with_stored_type(out.dtype, [&]<class Stored>(Stored) {
        using Value = Wide<Stored>;
        const auto narrow = static_cast<Value>(scale);
        if (law == Law::gaussian) return fill_with<Stored>(taken, FloatGaussian<Value>{narrow}, out, stream);
        return fill_with<Stored>(taken, FloatLaplace<Value>{narrow}, out, stream);
    });
}

cudaError_t fill_noise(const NoiseSource& source, Law law, double scale, const OutArgument& out, void* workspace, cudaStream_t stream) {
    CallStream taken;
    const cudaError_t error = take(source, source.state == nullptr ? nullptr : &static_cast<CallHeader*>(workspace)->nonce, stream, taken);
    if (error != cudaSuccess || out.count == 0) return error;
    return fill_from(taken, law, scale, out, stream);
}

}  // namespace hushvec::cuda
