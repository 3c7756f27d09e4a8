#include "clip_and_noise.cuh"

namespace hushvec::cuda {

cudaError_t exact_gaussian(const NoiseCall& call, float s, float grid) {
    const GaussianLevelOne level(s);
    return with_stored_type(call.rows.dtype, [&]<class Stored>(Stored) {
        return launch_noise<Stored>(call, ExactGaussian<Wide<Stored>>{level, grid, call.workspace.open_pairs()});
    });
}

}  // namespace hushvec::cuda
