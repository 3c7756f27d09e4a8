#include "privunit/unit_normals.hpp"

#include <bit>

#include "noise/variate.hpp"

namespace hushvec {

bool normals_outside_window(const KeyStream& stream, std::uint64_t first_block, std::size_t word, std::uint32_t lanes,
                            const std::uint32_t* radius_word, const std::uint32_t* angle_word, float (*value)[kMaxLanes]) {
    bool bounded = true;
    for (; lanes != 0; lanes &= lanes - 1) {
        const auto lane = static_cast<std::size_t>(std::countr_zero(lanes));
        const Block low = lane_block(stream, domain::kLowWords, first_block + lane);
        const NormalVariates z = normal_variates(radius_word[lane], angle_word[lane], low[word], low[word + kBlockWords / 2]);
        value[0][lane] = static_cast<float>(z.cosine);
        value[1][lane] = static_cast<float>(z.sine);
        bounded &= radius_word[lane] != 0;
    }
    return bounded;
}

}  // namespace hushvec
