#include "clip_and_noise.cuh"

namespace hushvec::cuda {

cudaError_t float_laplace(const NoiseCall& call, double scale) {
    return with_stored_type(call.rows.dtype, [&]<class Stored>(Stored) {
        return launch_noise<Stored>(call, FloatLaplace<Wide<Stored>>{static_cast<Wide<Stored>>(scale)});
    });
}

}  // namespace hushvec::cuda
