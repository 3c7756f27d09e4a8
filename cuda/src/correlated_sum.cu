#include <cmath>
#include <vector>

#include "device/combination_body.hpp"
#include "hushvec/clipped_sum.hpp"
#include "kernels.cuh"
#include "release_memory.hpp"

namespace hushvec::cuda {
namespace {

NoiseTerms terms_in_grids(std::span<const NoiseTerm> terms, ExactGrid grid) {
    NoiseTerms result;
    for (const NoiseTerm& term : terms) {
        const double s = double{grid.sigma / grid.grid} * double{term.coefficient};   // exact: 24 bits times 24
        if (s != 0) result.list[result.count++] = {*term.stream, s};
    }
    return result;
}

PairCapacity capacity_of(std::span<const float> coefficients, std::size_t samples) {
    double size = 0;
    for (const float coefficient : coefficients) size += std::fabs(double{coefficient});
    return {open_pair_capacity(samples, coefficients.size(), size)};
}

PairCapacity capacity_of(std::span<const NoiseTerm> terms, std::size_t samples) {
    std::vector<float> coefficients;
    for (const NoiseTerm& term : terms) coefficients.push_back(term.coefficient);
    return capacity_of(coefficients, samples);
}

}  // namespace

std::size_t release_correlated_workspace_bytes(std::span<const float> coefficients, std::span<const SumArgument> parts) {
    const ReleaseMemory release(parts);
    return release.bytes(capacity_of(coefficients, release.samples()));
}

cudaError_t release_correlated(std::span<const NoiseTerm> terms, std::span<const SumArgument> parts, double clip_norm, ExactGrid grid,
                               void* memory, cudaStream_t stream) {
    const ReleaseMemory release(parts);
    const Workspace workspace(memory, capacity_of(terms, release.samples()));
    cudaError_t error = release.begin(workspace, stream);
    if (error != cudaSuccess || release.groups == 0) return error;
    const NoiseTerms in_grids = terms_in_grids(terms, grid);
    const SumParts on_device = release.parts({}, grid, workspace);
    const CombinedNoiseBody noise = {on_device, release.groups, CombinationLevelOne(in_grids.count), workspace.open_pairs(),
                                     sum_unit(clip_norm) / double{grid.grid}, in_grids};
    const dim3 blocks(static_cast<unsigned>(divide_up(release.groups, kStreamThreads / kGroupBlocks)));
    error = launch<warps_kernel<CombinedNoiseBody>>(blocks, kStreamThreads, 0, stream, noise);
    if (error != cudaSuccess) return error;
    const CombinationLadderBody ladder = {on_device, workspace.open_pairs(), workspace.open_samples(), in_grids};
    return launch_ladder_body(ladder, workspace, stream);
}

cudaError_t settle_correlated(std::span<const NoiseTerm> terms, std::span<const SumArgument> parts, ExactGrid grid, void* memory,
                              cudaStream_t stream) {
    const ReleaseMemory release(parts);
    const Workspace workspace(memory, capacity_of(terms, release.samples()));
    const NoiseTerms in_grids = terms_in_grids(terms, grid);
    const CombinationSettleBody body = {release.parts({}, grid, workspace), workspace.open_samples(), in_grids};
    return launch<settle_kernel<CombinationSettleBody>>(dim3(1), 1, 0, stream, body);
}

}  // namespace hushvec::cuda
