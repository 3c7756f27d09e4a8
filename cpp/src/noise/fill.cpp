// Noise-only fills of arrays: whole groups straight into flat float32 memory, everything else through a small stage.
#include <algorithm>
#include <vector>

#include "array/staging.hpp"
#include "clip/validate.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/noise.hpp"
#include "noise/float64_noise.hpp"
#include "noise/l2_laplace.hpp"
#include "parallel/threads.hpp"

namespace hushvec {
namespace {

constexpr std::size_t kStageGroups = 16;   // 16 KiB of float32: stays in the first-level cache

using FloatFill = void (*)(const KeyStream&, float, std::uint64_t, std::size_t, float*);

// Groups [begin, end) of the array, where the last group may be cut short by the array's end.
void fill_flat(const KeyStream& stream, FloatFill fill, float scale, const MatrixView& out, std::size_t begin, std::size_t end) {
    float* samples = reinterpret_cast<float*>(out.data);
    const std::size_t whole = std::min(end, out.size() / kGroupSamples);
    if (begin < whole) fill(stream, scale, begin, whole - begin, samples + begin * kGroupSamples);
    if (whole < end) {
        float stage[kGroupSamples];
        fill(stream, scale, whole, 1, stage);
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

    const FloatFill fill = law == Law::gaussian ? active_kernels().fill_gaussian : active_kernels().fill_laplace;
    const auto narrow_scale = static_cast<float>(scale);
    const std::size_t groups = (out.size() + kGroupSamples - 1) / kGroupSamples;
    parallel_for(groups, kGroupSamples, [&](std::size_t begin, std::size_t end) {
        if (out.dtype == DType::float64) {
            fill_staged<double>(out, begin, end, [&](std::size_t first, std::size_t count, double* stage) {
                float64_noise(stream, law, scale, first, count, stage);
            });
        } else if (out.dtype == DType::float32 && out.is_flat()) {
            fill_flat(stream, fill, narrow_scale, out, begin, end);
        } else {
            fill_staged<float>(out, begin, end, [&](std::size_t first, std::size_t count, float* stage) {
                fill(stream, narrow_scale, first, count, stage);
            });
        }
    });
}

}  // namespace hushvec
