#include "clip_and_noise.cuh"

namespace hushvec::cuda {

cudaError_t half_gaussian(const NoiseCall& call, float s, float grid) {
    const GaussianLevelZero level(s);
    return with_stored_type(call.rows.dtype, [&]<class Stored>(Stored) {
        return launch_half_noise<Stored>(call, HalfGaussian<Wide<Stored>>{level, grid});
    });
}

}  // namespace hushvec::cuda
