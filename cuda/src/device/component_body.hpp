// alpha of every row (cpp/src/privunit/component.hpp), a thread a row, before the rows themselves. What float64 cannot tell is left to the host.
#pragma once

#include <limits>

#include "device/team.hpp"
#include "device/thread_lane.hpp"
#include "hushvec/privunit.hpp"
#include "privunit/component_float64.hpp"
#include "rng/chacha_lanes.hpp"

namespace hushvec::cuda {

inline constexpr unsigned kComponentThreads = 128;

struct DrawnComponent {
    double value;
    double half_width;   // infinite: float64 cannot tell which attempt is accepted
};

struct ComponentBody {
    KeyStream stream;
    PrivUnitLaw law;
    std::size_t rows;
    DrawnComponent* components;

    template <class Team>
    HUSHVEC_INLINE void run(std::size_t block, std::size_t blocks, const Team& team) const {
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            ChaChaLanes<Thread> chacha(stream, domain::kComponents);
            for (std::size_t row = block * kComponentThreads + thread; row < rows; row += blocks * kComponentThreads) components[row] = draw(chacha, row);
        });
    }

private:
    HUSHVEC_INLINE DrawnComponent draw(ChaChaLanes<Thread>& chacha, std::uint64_t row) const {
        bool in_cap = false;
        for (std::uint64_t attempt = 0; attempt <= alpha::kLastAttempt; ++attempt) {
            Block block;
            chacha.blocks((attempt << alpha::kRowBits) | row, block.data(), 1);
            if (attempt == 0) in_cap = alpha::is_in_cap(block, law.cap_probability);
            const alpha::Estimate estimate = alpha::estimate(block, in_cap, law.threshold);
            const alpha::Verdict verdict = alpha::judge(block, estimate, in_cap, law.threshold);
            if (verdict == alpha::Verdict::accepted) return {estimate.value, estimate.half_width};
            if (verdict == alpha::Verdict::undecided) break;
        }
        return {0, std::numeric_limits<double>::infinity()};
    }
};

}  // namespace hushvec::cuda
