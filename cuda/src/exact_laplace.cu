#include "clip_and_noise.cuh"
#include "device/error_bounds.hpp"

namespace hushvec::cuda {

cudaError_t exact_laplace(const NoiseCall& call, float s, float grid) {
    const ExactScale<Thread> scale(s, kLaplaceBound);
    return with_stored_type(call.rows.dtype, [&]<class Stored>(Stored) {
        return launch_noise<Stored>(call, ExactLaplace<Wide<Stored>>{scale, grid, call.workspace.open_samples()});
    });
}

}  // namespace hushvec::cuda
