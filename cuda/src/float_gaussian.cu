#include "clip_and_noise.cuh"

namespace hushvec::cuda {

cudaError_t float_gaussian(const NoiseCall& call, double sigma) {
    return with_stored_type(call.rows.dtype, [&]<class Stored>(Stored) {
        return launch_noise<Stored>(call, FloatGaussian<Wide<Stored>>{static_cast<Wide<Stored>>(sigma)});
    });
}

}  // namespace hushvec::cuda
