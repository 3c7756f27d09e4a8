#include "kernels.cuh"

namespace hushvec::cuda {
namespace {

template <class Stored, class Noise>
cudaError_t fill_with(const NoiseSource& source, const Noise& noise, void* out, std::size_t count, cudaStream_t stream) {
    using Body = FillBody<Stored, Noise>;
    const Body body = {source, noise, static_cast<Stored*>(out), count};
    const unsigned blocks = striding_blocks(divide_up(count, kGroupSamples * (kFillThreads / kGroupBlocks)));
    return launch(fill_kernel<Body>, dim3(blocks), kFillThreads, 0, stream, body);
}

}  // namespace

cudaError_t fill_noise(const NoiseSource& source, Law law, double scale, void* out, DType dtype, std::size_t count, cudaStream_t stream) {
    if (count > 0) {
        const cudaError_t error = with_stored_type(dtype, [&]<class Stored>(Stored) {
            using Value = Wide<Stored>;
            const auto narrow = static_cast<Value>(scale);
            if (law == Law::gaussian) return fill_with<Stored>(source, FloatGaussian<Value>{narrow}, out, count, stream);
            return fill_with<Stored>(source, FloatLaplace<Value>{narrow}, out, count, stream);
        });
        if (error != cudaSuccess) return error;
    }
    return finish(source, out, dtype, law, ExactGrid{0, 0}, nullptr, stream);
}

}  // namespace hushvec::cuda
