// After a kernel: settles what it left open.
#pragma once

#include "device/element.hpp"
#include "device/open_samples.hpp"
#include "device/source.hpp"
#include "noise/ladder_first_step.hpp"

namespace hushvec::cuda {

// The sample a Gaussian pair's cosine or sine stands for.
HUSHVEC_DEVICE inline std::uint64_t sample_of_pair(std::uint64_t pair, bool sine) {
    return pair / kGroupPairs * kGroupSamples + pair % kGroupPairs + (sine ? kGroupSamples / 2 : 0);
}

struct SettleBody {
    CallStream source;
    bool gaussian;
    float s;
    float grid;
    OpenSamples open;
    void* out;
    DType dtype;
    std::size_t count;   // of out: kernels work on whole groups, and may list samples behind the last

    // One thread: the list is empty but for a few calls in a million.
    HUSHVEC_DEVICE void run() const {
        const std::uint32_t listed = open.report->open_samples < kOpenCapacity ? open.report->open_samples : kOpenCapacity;
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
            store(sample_of_pair(sample.index, sample.sine), settle_first_step(word, extension, sample.x, s).index);
        } else {
            store(sample.index, settle_first_step(LaplaceWord{sample.index, sample.first_word}, extension, sample.x, s).index);
        }
    }

    HUSHVEC_DEVICE void store(std::uint64_t at, std::int32_t n) const {
        if (at >= count) return;
        const float y = static_cast<float>(n) * grid;
        switch (dtype) {
            case DType::float32: static_cast<float*>(out)[at] = y; break;
            case DType::float64: static_cast<double*>(out)[at] = y; break;
            case DType::float16: static_cast<Float16*>(out)[at] = narrowed<Float16>(y); break;
            case DType::bfloat16: static_cast<Bfloat16*>(out)[at] = narrowed<Bfloat16>(y); break;
            case DType::int8: break;   // no array on a device has it
        }
    }
};

}  // namespace hushvec::cuda
