// The release of a sum: N(0, sigma^2) added and exactly rounded, docs/format.md sections 5 and 7.
#include <algorithm>
#include <cmath>

#include "clip/run_kernel.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/clipped_sum.hpp"
#include "parallel/threads.hpp"

namespace hushvec {
namespace {

constexpr std::size_t kStageGroups = 16;   // 32 KiB of float64
constexpr std::size_t kStageSamples = kStageGroups * kGroupSamples;
constexpr std::size_t kVector = 16;        // elements of a NoiseRun scale vector
constexpr std::size_t kBytesAhead = 4096;
constexpr double kLargestElement = 0x1p21;   // what exact rounding takes: docs/format.md section 5

struct Release {
    RunKernel kernel;
    double sum_in_grids;   // unit / g
    const double* sums;
    std::size_t count;
    float* out;

    // Whole groups [begin, end) where no sum is above kLargestElement grids.
    void groups(std::size_t begin, std::size_t end) const {
        double factor[kVector];
        std::fill_n(factor, kVector, sum_in_grids);
        kernel(NoiseRun<double>{begin, end - begin, sums + begin * kGroupSamples, factor, 0, out + begin * kGroupSamples, kBytesAhead, kBytesAhead});
    }

    // Any groups, any sums: whole grids are taken off a large sum, and put back after the rounding.
    void staged_groups(std::size_t begin, std::size_t end) const {
        double elements[kStageSamples], whole[kStageSamples], one[kVector];
        float rounded[kStageSamples];
        std::fill_n(one, kVector, 1.0);
        for (std::size_t group = begin; group < end; group += kStageGroups) {
            const std::size_t groups_here = std::min(kStageGroups, end - group);
            const std::size_t first = group * kGroupSamples;
            const std::size_t samples = std::min(groups_here * kGroupSamples, count - first);
            std::fill(elements + samples, elements + kStageSamples, 0.0);
            for (std::size_t i = 0; i < samples; ++i) {
                const double x = sums[first + i] * sum_in_grids;
                whole[i] = std::fabs(x) <= kLargestElement / 2 ? 0.0 : std::rint(x);
                elements[i] = x - whole[i];
            }
            kernel(NoiseRun<double>{group, groups_here, elements, one, 0, rounded, 0, 0});
            for (std::size_t i = 0; i < samples; ++i) {
                out[first + i] = static_cast<float>(whole[i] * double{kernel.grid.grid} + double{rounded[i]});
            }
        }
    }
};

void release_sums(const double* sums, std::size_t count, double unit, float* out) {
    parallel_for(count, 1, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) out[i] = static_cast<float>(sums[i] * unit) + 0.0f;   // never -0
    });
}

}  // namespace

void ClippedSum::release(std::size_t part, const KeyStream& stream, float* out) {
    const std::size_t count = columns_[part];
    double* sums = sums_of(part);
    if (rows_ == 0) std::fill_n(sums, count, 0.0);
    if (grid_.grid == 0) return release_sums(sums, count, unit_, out);
    const Release release = {{stream, Law::gaussian, grid_, 0}, unit_ / double{grid_.grid}, sums, count, out};
    const bool small = static_cast<double>(rows_) * clip_norm_ <= kLargestElement * double{grid_.grid};
    const std::size_t direct = small ? count / kGroupSamples : 0;
    const std::size_t all = (count + kGroupSamples - 1) / kGroupSamples;
    parallel_for(direct, kGroupSamples, [&](std::size_t begin, std::size_t end) { release.groups(begin, end); });
    parallel_for(all - direct, kGroupSamples, [&](std::size_t begin, std::size_t end) { release.staged_groups(direct + begin, direct + end); });
}

}  // namespace hushvec
