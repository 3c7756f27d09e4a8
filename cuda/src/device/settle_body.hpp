// After the ladder: settles what float64 left open.
#pragma once

#include "device/open_samples.hpp"
#include "device/settled_output.hpp"
#include "device/source.hpp"
#include "noise/ladder_first_step.hpp"

namespace hushvec::cuda {

struct SettleBody {
    CallStream source;
    bool gaussian;
    float s;
    OpenSamples open;
    SettledOutput out;

    // One thread: the list is empty but for a few calls in a million.
    HUSHVEC_DEVICE void run() const {
        const std::uint32_t listed = open.size();
        if (listed == 0) return;
        multiprecision::FirstStepLimbs::clear_pool();
        const KeyStream stream = stream_of(source);
        for (std::uint32_t i = 0; i < listed; ++i) settle(stream, open.list[i]);
    }

private:
    HUSHVEC_COLD void settle(const KeyStream& stream, const OpenSample& sample) const {
        const Block extension = extension_block(stream, sample.index);
        if (gaussian) {
            const GaussianWord word = {sample.index, sample.first_word, sample.second_word, sample.sine};
            out.store(sample_of_pair(sample.index, sample.sine), settle_first_step(word, extension, sample.x, s).index);
        } else {
            out.store(sample.index, settle_first_step(LaplaceWord{sample.index, sample.first_word}, extension, sample.x, s).index);
        }
    }
};

}  // namespace hushvec::cuda
