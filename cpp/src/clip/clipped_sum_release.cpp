// The release of a sum: N(0, sigma^2) added and exactly rounded, docs/format.md sections 5 and 7.
#include <algorithm>
#include <cmath>
#include <span>

#include "array/line_vector.hpp"
#include "clip/run_kernel.hpp"
#include "clip/unit_sums.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/clipped_sum.hpp"
#include "noise/combination.hpp"
#include "parallel/threads.hpp"

namespace hushvec {
namespace {

constexpr std::size_t kGroupsAtOnce = 16;   // of one call of a kernel: what half words leave open fills vectors
constexpr std::size_t kElementsAtOnce = kGroupsAtOnce * kGroupSamples;
constexpr double kLargestElement = 0x1p21;   // what exact rounding takes: docs/format.md section 5
constexpr double kMostOfCoefficients = 16;    // settle_combination takes 2^11 grids, and s is at most 128

constexpr std::size_t groups_of(std::size_t count) { return (count + kGroupSamples - 1) / kGroupSamples; }

// What one part's release is made of. Kernel is a RunKernel, or a CombinedKernel where steps share noise.
template <class Kernel>
struct Release {
    const UnitSums& sums;
    std::size_t part;
    std::size_t count;
    float* out;
    Kernel kernel;
    double unit;
    double sum_in_grids;         // unit / g
    std::size_t direct_groups;   // whole ones, where no sum is above kLargestElement grids
};

// Noise of several streams in one pass, with buffers of each thread's own.
class CombinedKernel {
public:
    CombinedKernel(std::span<const ScaledStream> terms, std::uint64_t first_group, ExactGrid on_grid)
        : grid(on_grid), terms_(terms), first_group_(first_group), noise_(kElementsAtOnce), reach_(kElementsAtOnce) {}

    void operator()(const NoiseRun<double>& run) {
        const Kernels& kernels = active_kernels();
        const std::uint64_t first = first_group_ + run.first_group;
        for (std::size_t term = 0; term < terms_.size(); ++term) {
            const auto s = static_cast<float>(terms_[term].s);
            kernels.add_normals(*terms_[term].stream, NormalsRun{first, run.groups, s, term > 0, noise_.data(), reach_.data()});
        }
        kernels.round_combination(
            CombinationRun{first, run.groups, run.x, run.row_scale, noise_.data(), reach_.data(), terms_, grid.grid, run.y},
            kernels.gaussian_bound);
    }

    const ExactGrid grid;

private:
    std::span<const ScaledStream> terms_;
    std::uint64_t first_group_;
    LineVector<float> noise_, reach_;
};

// The groups of one thread. Its buffers are in memory of their own: the frames below a kernel's caller are wiped up to a fixed size.
template <class Kernel>
class ReleaseWorker {
public:
    explicit ReleaseWorker(const Release<Kernel>& release) : release_(release), kernel_(release.kernel), elements_(kElementsAtOnce) {}

    void operator()(std::size_t begin, std::size_t end) {
        for (std::size_t group = begin; group < end;) {
            const bool direct = group < release_.direct_groups;
            const std::size_t groups = std::min(kGroupsAtOnce, (direct ? std::min(end, release_.direct_groups) : end) - group);
            direct ? small_sums(group, groups) : any_sums(group, groups);
            group += groups;
        }
    }

private:
    void small_sums(std::size_t group, std::size_t groups) {
        const std::size_t first = group * kGroupSamples;
        double factor[kRunScales];
        std::fill_n(factor, kRunScales, release_.sum_in_grids);
        release_.sums.read(release_.part, first, groups * kGroupSamples, elements_.data());
        kernel_(NoiseRun<double>{group, groups, elements_.data(), factor, kOneRow, release_.out + first, 0});
    }

    // Whole grids are taken off a large sum, and put back after the rounding.
    void any_sums(std::size_t group, std::size_t groups) {
        whole_.resize(kElementsAtOnce);
        rounded_.resize(kElementsAtOnce);
        const std::size_t first = group * kGroupSamples;
        const std::size_t samples = std::min(groups * kGroupSamples, release_.count - first);
        release_.sums.read(release_.part, first, padded(samples), elements_.data());
        std::fill(elements_.data() + samples, elements_.data() + groups * kGroupSamples, 0.0);
        for (std::size_t i = 0; i < samples; ++i) {
            const double x = elements_[i] * release_.sum_in_grids;
            whole_[i] = std::fabs(x) <= kLargestElement / 2 ? 0.0 : std::rint(x);
            elements_[i] = x - whole_[i];
        }
        double one[kRunScales];
        std::fill_n(one, kRunScales, 1.0);
        kernel_(NoiseRun<double>{group, groups, elements_.data(), one, kOneRow, rounded_.data(), 0});
        const double grid = kernel_.grid.grid;
        for (std::size_t i = 0; i < samples; ++i) release_.out[first + i] = static_cast<float>(whole_[i] * grid + double{rounded_[i]});
    }

    const Release<Kernel>& release_;
    Kernel kernel_;
    LineVector<double> elements_, whole_;
    LineVector<float> rounded_;
};

// `largest` is the largest magnitude that a sum can have.
template <class Kernel>
void release_noisy(const UnitSums& sums, std::size_t part, std::size_t count, const Kernel& kernel, double largest, double unit, float* out) {
    const double grid = kernel.grid.grid;
    const std::size_t direct_groups = largest <= kLargestElement * grid ? count / kGroupSamples : 0;
    const Release<Kernel> release = {sums, part, count, out, kernel, unit, unit / grid, direct_groups};
    parallel_ranges(groups_of(count), kGroupSamples, [&] { return ReleaseWorker<Kernel>(release); });
}

class NoiselessWorker {
public:
    explicit NoiselessWorker(const Release<RunKernel>& release) : release_(release), elements_(kElementsAtOnce) {}

    void operator()(std::size_t begin, std::size_t end) {
        for (std::size_t group = begin; group < end; group += kGroupsAtOnce) {
            const std::size_t first = group * kGroupSamples;
            const std::size_t samples = std::min(std::min(kGroupsAtOnce, end - group) * kGroupSamples, release_.count - first);
            release_.sums.read(release_.part, first, padded(samples), elements_.data());
            for (std::size_t i = 0; i < samples; ++i) release_.out[first + i] = static_cast<float>(elements_[i] * release_.unit) + 0.0f;   // never -0
        }
    }

private:
    const Release<RunKernel>& release_;
    LineVector<double> elements_;
};

// Whole sums of one thread: whole grids are taken off, the rest is rounded with its noise, and they are put back.
class WholeSumsWorker {
public:
    WholeSumsWorker(const std::int64_t* sums, std::size_t count, int shift, const KeyStream& stream, ExactGrid grid, double* out)
        : sums_(sums), count_(count), shift_(shift), grid_(grid.grid), kernel_{stream, Law::gaussian, in_grid_units(grid), 0, false}, out_(out),
          rest_(kElementsAtOnce), whole_(kElementsAtOnce), rounded_(kElementsAtOnce) {}

    void operator()(std::size_t begin, std::size_t end) {
        double one[kRunScales];
        std::fill_n(one, kRunScales, 1.0);
        for (std::size_t group = begin; group < end; group += kGroupsAtOnce) {
            const std::size_t groups = std::min(kGroupsAtOnce, end - group);
            const std::size_t first = group * kGroupSamples;
            const std::size_t samples = std::min(groups * kGroupSamples, count_ - first);
            std::fill(rest_.data() + samples, rest_.data() + groups * kGroupSamples, 0.0);
            const std::int64_t half = shift_ > 0 ? std::int64_t{1} << (shift_ - 1) : 0;
            for (std::size_t i = 0; i < samples; ++i) {
                whole_[i] = (sums_[first + i] + half) >> shift_;
                rest_[i] = std::ldexp(static_cast<double>(sums_[first + i] - (whole_[i] << shift_)), -shift_);
            }
            kernel_(NoiseRun<double>{group, groups, rest_.data(), one, kOneRow, rounded_.data(), 0});
            for (std::size_t i = 0; i < samples; ++i) {
                out_[first + i] = static_cast<double>(whole_[i] + static_cast<std::int64_t>(rounded_[i])) * grid_;
            }
        }
    }

private:
    const std::int64_t* sums_;
    std::size_t count_;
    int shift_;   // the unit is the grid times 2^-shift
    double grid_;
    RunKernel kernel_;
    double* out_;
    LineVector<double> rest_;
    LineVector<std::int64_t> whole_;
    LineVector<float> rounded_;
};

}  // namespace

void release_whole_sums(const std::int64_t* sums, std::size_t count, double unit, double sigma, const KeyStream& stream, double* out) {
    constexpr int kMostBitsOfRest = 53;
    const ExactGrid grid = exact_grid(sigma, sigma);
    const int shift = std::ilogb(grid.grid) - std::ilogb(unit);
    if (shift < 0 || shift > kMostBitsOfRest) {
        throw std::invalid_argument("sigma must be in [2^6, 2^59] units of the sum, got " + std::to_string(sigma / unit));
    }
    parallel_ranges(groups_of(count), kGroupSamples, [&] { return WholeSumsWorker(sums, count, shift, stream, grid, out); });
}

void ClippedSum::release(std::size_t part, const KeyStream& stream, float* out) {
    if (rows_ == 0) sums_->clear(part);
    const RunKernel kernel = {stream, Law::gaussian, has_noise() ? grid(stream.half_words) : ExactGrid{0, 0}, 0, stream.half_words};
    if (has_noise()) return release_noisy(*sums_, part, columns_[part], kernel, static_cast<double>(rows_) * clip_norm_, unit_, out);
    const Release<RunKernel> release = {*sums_, part, columns_[part], out, kernel, unit_, 0.0, 0};
    parallel_ranges(groups_of(release.count), kGroupSamples, [&] { return NoiselessWorker(release); });
}

void check_noise_terms(std::span<const NoiseTerm> terms) {
    double sum = 0.0;
    for (const NoiseTerm& term : terms) {
        const double size = std::fabs(double{term.coefficient});
        if (!(size <= 1)) throw std::invalid_argument("coefficients must be in [-1, 1], got " + std::to_string(term.coefficient));
        sum += size;
    }
    if (sum == 0 || sum > kMostOfCoefficients) {
        throw std::invalid_argument("coefficients must have magnitudes that sum to more than 0 and at most 16, got " + std::to_string(sum));
    }
}

void ClippedSum::release(std::size_t part, std::span<const NoiseTerm> terms, std::uint64_t first_group, float* out) {
    if (!has_noise()) throw std::invalid_argument("sigma must be > 0 where noise is correlated, got 0");
    check_noise_terms(terms);
    const ExactGrid of_terms = grid(false);
    std::vector<ScaledStream> scaled;
    for (const NoiseTerm& term : terms) {
        const double s = double{of_terms.sigma / of_terms.grid} * double{term.coefficient};   // exact: 24 bits times 24
        if (s != 0) scaled.push_back({term.stream, s});
    }
    if (rows_ == 0) sums_->clear(part);
    const CombinedKernel kernel(scaled, first_group, of_terms);
    release_noisy(*sums_, part, columns_[part], kernel, static_cast<double>(rows_) * clip_norm_, unit_, out);
}

}  // namespace hushvec
