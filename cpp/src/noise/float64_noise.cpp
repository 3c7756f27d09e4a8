#include "noise/float64_noise.hpp"

#include "dispatch/dispatch.hpp"
#include "noise/variate.hpp"

namespace hushvec {
namespace {

constexpr std::size_t kHalfGroup = kGroupSamples / 2;

void gaussian_group(const std::uint32_t* words, const std::uint32_t* low, double sigma, double* out) {
    for (std::size_t i = 0; i < kHalfGroup; ++i) {
        const NormalVariates z = normal_variates(words[i], words[i + kHalfGroup], low[i], low[i + kHalfGroup]);
        out[i] = sigma * z.cosine;
        out[i + kHalfGroup] = sigma * z.sine;
    }
}

void laplace_group(const std::uint32_t* words, const std::uint32_t* low, double scale, double* out) {
    for (std::size_t i = 0; i < kGroupSamples; ++i) out[i] = scale * laplace_variate(words[i], low[i]);
}

}  // namespace

void float64_noise(const KeyStream& stream, Law law, double scale, std::uint64_t first_group, std::size_t groups, double* out) {
    std::uint32_t words[kGroupSamples], low[kGroupSamples];
    for (std::size_t group = 0; group < groups; ++group, out += kGroupSamples) {
        active_kernels().keystream(stream, domain::kMain, first_group + group, 1, words);
        active_kernels().keystream(stream, domain::kLowWords, first_group + group, 1, low);
        if (law == Law::gaussian) {
            gaussian_group(words, low, scale, out);
        } else {
            laplace_group(words, low, scale, out);
        }
    }
}

}  // namespace hushvec
