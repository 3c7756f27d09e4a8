// Clipping fused with one kind of noise, for the files that instantiate one kind each (they compile side by side).
#pragma once

#include "rows.cuh"

namespace hushvec::cuda {

// A call with everything checked.
struct NoiseCall {
    const CallStream& source;
    const RowsArgument& rows;
    double clip_norm;
    double unit;
    const Workspace& workspace;
    cudaStream_t stream;
};

// Rows of whole groups have a kernel of their own, a little shorter, for the law that most calls use.
template <class Noise>
inline constexpr bool kOwnKernelForWholeGroups = false;
template <class Value>
inline constexpr bool kOwnKernelForWholeGroups<ExactGaussian<Value>> = true;

template <class Stored, class Noise>
cudaError_t launch_noise_by_tiles(const NoiseCall& call, const TileShape& shape, const Noise& noise) {
    if constexpr (kOwnKernelForWholeGroups<Noise>) {
        if (call.rows.columns % kGroupSamples == 0) {
            return launch_tiles<Stored>(call.rows, shape, call.clip_norm, call.unit, NoiseWork<Stored, Noise, true>{call.source, noise},
                                        call.workspace, call.stream);
        }
    }
    return launch_tiles<Stored>(call.rows, shape, call.clip_norm, call.unit, NoiseWork<Stored, Noise, false>{call.source, noise},
                                call.workspace, call.stream);
}

template <class Stored, class Noise>
cudaError_t launch_noise(const NoiseCall& call, const Noise& noise) {
    if constexpr (sizeof(Stored) <= sizeof(float)) {
        if (const auto shape = device_tile_shape<Stored>(call.rows)) return launch_noise_by_tiles<Stored>(call, *shape, noise);
    }
    const RowsArgument& rows = call.rows;
    const cudaError_t error = launch_row_scales(rows, call.clip_norm, call.unit, call.workspace, call.stream);
    if (error != cudaSuccess) return error;
    using Body = StreamNoiseBody<Stored, Noise>;
    const Body body = {call.source, noise, static_cast<const Stored*>(rows.x), static_cast<Stored*>(rows.out), rows.rows, rows.columns,
                       reinterpret_cast<const Wide<Stored>*>(call.workspace.rest)};
    const std::size_t groups = divide_up(rows.rows * rows.columns, kGroupSamples);
    return launch<stream_kernel<Body>>(dim3(striding_blocks(divide_up(groups, kStreamThreads / kGroupBlocks))), kStreamThreads, 0, call.stream, body);
}

// One file each.
cudaError_t exact_gaussian(const NoiseCall& call, float s, float grid);
cudaError_t exact_laplace(const NoiseCall& call, float s, float grid);
cudaError_t float_gaussian(const NoiseCall& call, double sigma);
cudaError_t float_laplace(const NoiseCall& call, double scale);

}  // namespace hushvec::cuda
