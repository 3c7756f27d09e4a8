// After the ladder: settles what float64 left open, and leaves zeros in its list.
#pragma once

#include "device/open_samples.hpp"
#include "device/settled_output.hpp"
#include "noise/ladder_first_step.hpp"

namespace hushvec::cuda {

template <class Outputs>
struct SettleBody {
    Outputs outputs;
    bool gaussian;
    float s;
    OpenSamples open;

    // One thread: the list is empty but for a few calls in a million.
    HUSHVEC_DEVICE void run() const {
        const std::uint32_t listed = open.size();
        if (listed == 0) return;
        multiprecision::FirstStepLimbs::clear_pool();
        for (std::uint32_t i = 0; i < listed; ++i) {
            settle(open.list[i]);
            open.list[i] = {};
        }
    }

private:
    HUSHVEC_COLD void settle(const OpenSample& sample) const {
        const SettledPlace at = outputs.place(sample.index);
        const Block extension = extension_block(stream_of(at.source), at.index);
        if (gaussian) {
            const GaussianWord word = {at.index, sample.first_word, sample.second_word, sample.sine != 0};
            at.out.store(sample_of_pair(at.index, word.sine), settle_first_step(word, extension, sample.x, s).index);
        } else {
            at.out.store(at.index, settle_first_step(LaplaceWord{at.index, sample.first_word}, extension, sample.x, s).index);
        }
    }
};

}  // namespace hushvec::cuda
