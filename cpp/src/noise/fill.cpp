// Noise-only fills of arrays: whole groups straight into flat float32 or float64 memory, everything else through a small stage.
#include <algorithm>
#include <vector>

#include "array/staging.hpp"
#include "array/validate.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/noise.hpp"
#include "noise/float64_noise.hpp"
#include "noise/l2_laplace.hpp"
#include "parallel/threads.hpp"

namespace hushvec {
namespace {

// Fills groups [begin, end) of the array, where the last group may be cut short by the array's end.
// fill(first group, groups, buffer) makes the samples of whole groups.
template <class Value, class Fill>
void fill_flat(const MatrixView& out, std::size_t begin, std::size_t end, Fill fill) {
    Value* samples = reinterpret_cast<Value*>(out.data);
    const std::size_t whole = std::min(end, out.size() / kGroupSamples);
    if (begin < whole) fill(begin, whole - begin, samples + begin * kGroupSamples);
    if (whole < end) {
        Value stage[kGroupSamples];
        fill(whole, 1, stage);
        std::copy_n(stage, out.size() - whole * kGroupSamples, samples + whole * kGroupSamples);
    }
}

template <class Value, class Fill>
void fill_staged(const MatrixView& out, std::size_t begin, std::size_t end, Fill fill) {
    std::vector<Value> stage(kStageGroups * kGroupSamples);
    for (std::size_t group = begin; group < end; group += kStageGroups) {
        const std::size_t groups = std::min(kStageGroups, end - group);
        fill(group, groups, stage.data());
        const std::size_t first = group * kGroupSamples;
        scatter(stage.data(), out, first, std::min(groups * kGroupSamples, out.size() - first), Rounding::nearest);
    }
}

}  // namespace

void fill_noise(const KeyStream& stream, Law law, double scale, const MatrixView& out) {
    check_scale(law == Law::gaussian ? "sigma" : "scale", scale);
    if (law == Law::l2_laplace) return fill_l2_laplace(stream, scale, out);

    const auto float32_kernel = law == Law::gaussian ? active_kernels().fill_gaussian : active_kernels().fill_laplace;
    const auto fill_float32 = [&](std::size_t first, std::size_t count, float* samples) {
        float32_kernel(stream, static_cast<float>(scale), first, count, samples);
    };
    const auto fill_float64 = [&](std::size_t first, std::size_t count, double* samples) {
        float64_noise(stream, law, scale, first, count, samples);
    };
    const bool wide = out.dtype == DType::float64;
    const bool flat = (wide || out.dtype == DType::float32) && out.is_flat();
    const std::size_t groups = (out.size() + kGroupSamples - 1) / kGroupSamples;
    parallel_for(groups, kGroupSamples, [&](std::size_t begin, std::size_t end) {
        if (flat && wide) return fill_flat<double>(out, begin, end, fill_float64);
        if (flat) return fill_flat<float>(out, begin, end, fill_float32);
        if (wide) return fill_staged<double>(out, begin, end, fill_float64);
        fill_staged<float>(out, begin, end, fill_float32);
    });
}

}  // namespace hushvec
