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
template <class Value>
inline constexpr bool kOwnKernelForWholeGroups<HalfGaussian<Value>> = true;

template <class Stored>
StreamedRows<Stored> streamed_rows(const NoiseCall& call) {
    return {static_cast<const Stored*>(call.rows.x), static_cast<Stored*>(call.rows.out), call.rows.rows, call.rows.columns,
            reinterpret_cast<const Wide<Stored>*>(call.workspace.rest)};
}

// Rows of any length: their scales, then the noise, half a warp for `samples_at_once`.
template <class Body>
cudaError_t launch_streamed(const NoiseCall& call, std::size_t samples_at_once, const Body& body) {
    const cudaError_t error = launch_row_scales(call.rows, call.clip_norm, call.unit, call.workspace, call.stream);
    if (error != cudaSuccess) return error;
    const std::size_t items = divide_up(call.rows.rows * call.rows.columns, samples_at_once);
    const dim3 blocks(striding_blocks(divide_up(items, kStreamThreads / kGroupBlocks)));
    return launch<stream_kernel<Body>>(blocks, kStreamThreads, 0, call.stream, body);
}

template <class Stored, class Noise>
cudaError_t launch_noise_by_tiles(const NoiseCall& call, const TileShape<>& shape, const Noise& noise) {
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
    return launch_streamed(call, kGroupSamples, StreamNoiseBody<Stored, Noise>{call.source, noise, streamed_rows<Stored>(call)});
}

// The same of version 3.
template <class Stored, class Noise>
cudaError_t launch_half_noise(const NoiseCall& call, const Noise& noise) {
    const OpenPairs open = call.workspace.open_pairs();
    if constexpr (sizeof(Stored) <= sizeof(float)) {
        if (const auto shape = device_tile_shape<Stored, TilesOfHalfWords>(call.rows)) {
            const auto launched = [&]<bool kRowOfGroup>(std::bool_constant<kRowOfGroup>) {
                const HalfNoiseWork<Stored, Noise, kRowOfGroup> work(call.source, noise, open);
                return launch_tiles<Stored>(call.rows, *shape, call.clip_norm, call.unit, work, call.workspace, call.stream);
            };
            if constexpr (kOwnKernelForWholeGroups<Noise>) {
                if (call.rows.columns % kGroupSamples == 0 && shape->whole_groups()) return launched(std::true_type{});
            }
            return launched(std::false_type{});
        }
    }
    const StreamHalfNoiseBody<Stored, Noise> body = {call.source, noise, open, streamed_rows<Stored>(call)};
    return launch_streamed(call, kHalfWordGroups * kGroupSamples, body);
}

// One file each.
cudaError_t exact_gaussian(const NoiseCall& call, float s, float grid);
cudaError_t exact_laplace(const NoiseCall& call, float s, float grid);
cudaError_t half_gaussian(const NoiseCall& call, float s, float grid);
cudaError_t half_laplace(const NoiseCall& call, float s, float grid);
cudaError_t float_gaussian(const NoiseCall& call, double sigma);
cudaError_t float_laplace(const NoiseCall& call, double scale);

}  // namespace hushvec::cuda
