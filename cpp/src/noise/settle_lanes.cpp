#include "noise/settle_lanes.hpp"

#include <bit>
#include <cmath>

#include "noise/error_bounds.hpp"
#include "noise/ladder.hpp"

namespace hushvec {
namespace {

bool outside(const WordWindow& window, std::uint32_t word) {
    return word < window.smallest || word > window.largest;
}

}  // namespace

void settle_lanes(const KeyStream& stream, std::uint64_t first_pair, std::uint32_t open, double s, OpenGaussianLanes& lanes) {
    for (; open != 0; open &= open - 1) {
        const auto lane = static_cast<std::size_t>(std::countr_zero(open));
        const bool both = outside(kGaussianWindow, lanes.radius_word[lane]);
        for (std::size_t output = 0; output < 2; ++output) {
            if (!both && std::fabs(lanes.distance[output][lane]) < lanes.limit[lane]) continue;
            const GaussianWord word = {first_pair + lane, lanes.radius_word[lane], lanes.angle_word[lane], output == 1};
            lanes.index[output][lane] = static_cast<float>(settle(stream, word, lanes.x[output][lane], s).index);
        }
    }
}

void settle_lanes(const KeyStream& stream, std::uint64_t first_sample, std::uint32_t open, double s, OpenLaplaceLanes& lanes) {
    for (; open != 0; open &= open - 1) {
        const auto lane = static_cast<std::size_t>(std::countr_zero(open));
        const LaplaceWord word = {first_sample + lane, lanes.word[lane]};
        lanes.index[lane] = static_cast<float>(settle(stream, word, lanes.x[lane], s).index);
    }
}

}  // namespace hushvec
