#include "noise/tail.hpp"

#include <bit>

#include "noise/variate.hpp"

namespace hushvec {
namespace {

Block first_extension(const KeyStream& stream, std::uint64_t index) {
    return stream_block(stream, domain::kFirstExtension, index);
}

}  // namespace

void gaussian_tail(const KeyStream& stream, std::uint64_t first_pair, std::uint32_t tail, float sigma, const std::uint32_t* radius_word,
                   const std::uint32_t* angle_word, const float (*x)[kMaxLanes], float (*value)[kMaxLanes]) {
    for (; tail != 0; tail &= tail - 1) {
        const auto lane = static_cast<std::size_t>(std::countr_zero(tail));
        const Block extension = first_extension(stream, first_pair + lane);
        const NormalVariates z = normal_variates(radius_word[lane], angle_word[lane], extension[0], extension[8]);
        value[0][lane] = static_cast<float>(double{x[0][lane]} + double{sigma} * z.cosine);
        value[1][lane] = static_cast<float>(double{x[1][lane]} + double{sigma} * z.sine);
    }
}

void laplace_tail(const KeyStream& stream, std::uint64_t first_sample, std::uint32_t tail, float scale, const std::uint32_t* word,
                  const float* x, float* value) {
    for (; tail != 0; tail &= tail - 1) {
        const auto lane = static_cast<std::size_t>(std::countr_zero(tail));
        const Block extension = first_extension(stream, first_sample + lane);
        value[lane] = static_cast<float>(double{x[lane]} + double{scale} * laplace_variate(word[lane], extension[0]));
    }
}

}  // namespace hushvec
