#include "workspace.hpp"

#include "kernels.cuh"

namespace hushvec::cuda {
namespace {

float in_grids(ExactGrid grid) { return grid.sigma / grid.grid; }

OneOutput one(const CallStream& source, const OutArgument& out, ExactGrid grid) { return {source, {out.data, out.dtype, out.count, grid.grid}}; }

template <class Outputs>
LadderBody<Outputs> ladder_body(const Outputs& outputs, Law law, ExactGrid grid, const Workspace& workspace) {
    return {outputs, law == Law::gaussian, in_grids(grid), workspace.open_pairs(), workspace.open_samples()};
}

template <class Outputs>
cudaError_t launch_ladder(const Outputs& outputs, Law law, ExactGrid grid, const Workspace& workspace, cudaStream_t stream) {
    return launch_ladder_body(ladder_body(outputs, law, grid, workspace), workspace, stream);
}

template <class Outputs>
cudaError_t launch_refinement(const Outputs& outputs, Law law, ExactGrid grid, const Workspace& workspace, cudaStream_t stream) {
    return launch_ladder_body(RefineBody<Outputs>(ladder_body(outputs, law, grid, workspace), in_grids(grid)), workspace, stream);
}

SettleBody settle_body(const OneOutput& output, Law law, ExactGrid grid, const Workspace& workspace) {
    return {output.source, law == Law::gaussian, in_grids(grid), workspace.open_samples(), output.out};
}

cudaError_t launch_settle(const SettleBody& body, cudaStream_t stream) { return launch<settle_kernel<SettleBody>>(dim3(1), 1, 0, stream, body); }

}  // namespace

cudaError_t run_ladder(const CallStream& source, const OutArgument& out, Law law, ExactGrid grid, const Workspace& workspace, cudaStream_t stream) {
    const OneOutput outputs = one(source, out, grid);
    const cudaError_t error = launch_ladder(outputs, law, grid, workspace, stream);
    return error != cudaSuccess || source.state == nullptr ? error : launch_settle(settle_body(outputs, law, grid, workspace), stream);
}

cudaError_t run_refinement(const CallStream& source, const OutArgument& out, Law law, ExactGrid grid, const Workspace& workspace,
                           cudaStream_t stream) {
    return launch_refinement(one(source, out, grid), law, grid, workspace, stream);
}

cudaError_t run_ladder(const SumParts& parts, ExactGrid grid, const Workspace& workspace, cudaStream_t stream) {
    return launch_ladder(parts, Law::gaussian, grid, workspace, stream);
}

cudaError_t run_refinement(const SumParts& parts, ExactGrid grid, const Workspace& workspace, cudaStream_t stream) {
    return launch_refinement(parts, Law::gaussian, grid, workspace, stream);
}

cudaError_t settle(const KeyStream& source, const OutArgument& out, Law law, ExactGrid grid, void* memory, cudaStream_t stream) {
    return launch_settle(settle_body(one(CallStream{source}, out, grid), law, grid, Workspace(memory, out.count)), stream);
}

cudaError_t settle_part(const OneOutput& part, std::uint64_t first_pair, bool is_last, ExactGrid grid, const Workspace& workspace, cudaStream_t stream) {
    SettleBody body = settle_body(part, Law::gaussian, grid, workspace);
    body.first = first_pair;
    body.wipes = is_last;
    return launch_settle(body, stream);
}

}  // namespace hushvec::cuda
