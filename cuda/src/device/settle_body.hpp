// After the ladder: settles what float64 left open, and leaves zeros in its list.
#pragma once

#include "device/open_samples.hpp"
#include "device/settled_output.hpp"
#include "noise/ladder_first_step.hpp"

namespace hushvec::cuda {

struct SettleBody {
    CallStream source;
    bool gaussian;
    float s;
    OpenSamples open;
    SettledOutput out;
    std::uint64_t first = 0;   // the pair of the list that is the output's first: of one part of a sum, whose list counts through all
    bool wipes = true;         // the list, behind its last reader

    // One thread: the list is empty but for a few calls in a million.
    HUSHVEC_DEVICE void run() const {
        const std::uint32_t listed = open.size();
        if (listed == 0) return;
        multiprecision::FirstStepLimbs::clear_pool();
        const KeyStream stream = stream_of(source);
        for (std::uint32_t i = 0; i < listed; ++i) {
            settle(stream, open.list[i]);
            if (wipes) open.list[i] = {};
        }
    }

private:
    HUSHVEC_COLD void settle(const KeyStream& stream, const OpenSample& sample) const {
        const std::uint64_t index = sample.index - first;   // beyond the output's count where it is another's
        const Block extension = extension_block(stream, index);
        if (gaussian) {
            const GaussianWord word = {index, sample.first_word, sample.second_word, sample.sine != 0};
            out.store(sample_of_pair(index, word.sine), settle_first_step(word, extension, sample.x, s).index);
        } else {
            out.store(index, settle_first_step(LaplaceWord{index, sample.first_word}, extension, sample.x, s).index);
        }
    }
};

}  // namespace hushvec::cuda
