#include "clip_and_noise.cuh"

namespace hushvec::cuda {

cudaError_t half_laplace(const NoiseCall& call, float s, float grid) {
    const auto launched = [&]<class Stored>(Stored) { return launch_half_noise<Stored>(call, HalfLaplace<Wide<Stored>>(s, grid)); };
    return with_stored_type(call.rows.dtype, launched);
}

}  // namespace hushvec::cuda
