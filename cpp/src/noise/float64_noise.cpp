#include "noise/float64_noise.hpp"

#include <bit>

#include "dispatch/dispatch.hpp"
#include "noise/float64_lanes.hpp"
#include "noise/variate.hpp"

namespace hushvec {

void float64_noise(const KeyStream& stream, Law law, double scale, std::uint64_t first_group, std::size_t groups, double* out) {
    const Kernels& kernels = active_kernels();
    const auto fill = law == Law::gaussian ? kernels.fill_gaussian_f64 : kernels.fill_laplace_f64;
    fill(stream, scale, first_group, groups, out);
}

void normals_of_short_words(std::uint32_t lanes, const std::uint32_t* radius_word, const std::uint32_t* radius_low,
                            const std::uint32_t* angle_word, const std::uint32_t* angle_low, double* cosine, double* sine) {
    for (; lanes != 0; lanes &= lanes - 1) {
        const auto l = static_cast<std::size_t>(std::countr_zero(lanes));
        const NormalVariates z = normal_variates(radius_word[l], angle_word[l], radius_low[l], angle_low[l]);
        cosine[l] = z.cosine;
        sine[l] = z.sine;
    }
}

void laplaces_of_short_words(std::uint32_t lanes, const std::uint32_t* word, const std::uint32_t* low, double* value) {
    for (; lanes != 0; lanes &= lanes - 1) {
        const auto l = static_cast<std::size_t>(std::countr_zero(lanes));
        value[l] = laplace_variate(word[l], low[l]);
    }
}

}  // namespace hushvec
