// The release of a sum: N(0, sigma^2) added and exactly rounded, docs/format.md sections 5 and 7.
#include <algorithm>
#include <cmath>

#include "clip/run_kernel.hpp"
#include "clip/unit_sums.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/clipped_sum.hpp"
#include "parallel/threads.hpp"

namespace hushvec {
namespace {

constexpr std::size_t kVector = 16;         // elements of a NoiseRun scale vector
constexpr double kLargestElement = 0x1p21;   // what exact rounding takes: docs/format.md section 5

struct Release {
    const UnitSums& sums;
    std::size_t part;
    std::size_t count;
    float* out;
    RunKernel kernel;
    double sum_in_grids;   // unit / g

    // Whole groups [begin, end) where no sum is above kLargestElement grids.
    void groups(std::size_t begin, std::size_t end) const {
        double factor[kVector];
        alignas(64) double elements[kGroupSamples];
        std::fill_n(factor, kVector, sum_in_grids);
        for (std::size_t group = begin; group < end; ++group) {
            const std::size_t first = group * kGroupSamples;
            sums.read(part, first, kGroupSamples, elements);
            kernel(NoiseRun<double>{group, 1, elements, factor, 0, out + first, 0});
        }
    }

    // Any groups, any sums: whole grids are taken off a large sum, and put back after the rounding.
    void any_groups(std::size_t begin, std::size_t end) const {
        double elements[kGroupSamples], whole[kGroupSamples], one[kVector];
        float rounded[kGroupSamples];
        std::fill_n(one, kVector, 1.0);
        for (std::size_t group = begin; group < end; ++group) {
            const std::size_t first = group * kGroupSamples;
            const std::size_t samples = std::min(kGroupSamples, count - first);
            sums.read(part, first, padded(samples), elements);
            std::fill(elements + samples, elements + kGroupSamples, 0.0);
            for (std::size_t i = 0; i < samples; ++i) {
                const double x = elements[i] * sum_in_grids;
                whole[i] = std::fabs(x) <= kLargestElement / 2 ? 0.0 : std::rint(x);
                elements[i] = x - whole[i];
            }
            kernel(NoiseRun<double>{group, 1, elements, one, 0, rounded, 0});
            for (std::size_t i = 0; i < samples; ++i) {
                out[first + i] = static_cast<float>(whole[i] * double{kernel.grid.grid} + double{rounded[i]});
            }
        }
    }

    void without_noise(std::size_t begin, std::size_t end, double unit) const {
        double elements[kGroupSamples];
        for (std::size_t group = begin; group < end; ++group) {
            const std::size_t first = group * kGroupSamples;
            const std::size_t samples = std::min(kGroupSamples, count - first);
            sums.read(part, first, padded(samples), elements);
            for (std::size_t i = 0; i < samples; ++i) out[first + i] = static_cast<float>(elements[i] * unit) + 0.0f;   // never -0
        }
    }
};

template <class Work>
void in_ranges(std::size_t groups, const Work& work) {
    parallel_ranges(groups, kGroupSamples, [&] { return work; });
}

}  // namespace

void ClippedSum::release(std::size_t part, const KeyStream& stream, float* out) {
    if (rows_ == 0) sums_->clear();
    const std::size_t count = columns_[part];
    const std::size_t all = (count + kGroupSamples - 1) / kGroupSamples;
    const bool noisy = has_noise();
    const Release release = {*sums_, part, count, out, {stream, Law::gaussian, grid_, 0}, noisy ? unit_ / double{grid_.grid} : 0.0};
    if (!noisy) return in_ranges(all, [&](std::size_t begin, std::size_t end) { release.without_noise(begin, end, unit_); });
    const bool small = static_cast<double>(rows_) * clip_norm_ <= kLargestElement * double{grid_.grid};
    const std::size_t direct = small ? count / kGroupSamples : 0;
    in_ranges(direct, [&](std::size_t begin, std::size_t end) { release.groups(begin, end); });
    in_ranges(all - direct, [&](std::size_t begin, std::size_t end) { release.any_groups(direct + begin, direct + end); });
}

}  // namespace hushvec
