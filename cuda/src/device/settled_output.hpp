// Where a settled sample goes, whatever the stored type, and what its noise was drawn from.
#pragma once

#include "device/element.hpp"
#include "device/source.hpp"
#include "noise/ladder.hpp"

namespace hushvec::cuda {

// The sample that the first or the second word of a pair stands for (docs/format.md section 2).
HUSHVEC_DEVICE inline std::uint64_t sample_of_pair(std::uint64_t pair, bool second) {
    return pair / kGroupPairs * kGroupSamples + pair % kGroupPairs + (second ? kGroupSamples / 2 : 0);
}

struct SettledOutput {
    void* out;
    DType dtype;
    std::size_t count;   // kernels work on whole groups, and may list samples behind the last
    float grid;

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

// What a listed pair or sample belongs to, and its number there.
struct SettledPlace {
    CallStream source;
    SettledOutput out;
    std::uint64_t index;
};

// The outputs of a call on one array.
struct OneOutput {
    CallStream source;
    SettledOutput out;

    HUSHVEC_INLINE SettledPlace place(std::uint64_t index) const { return {source, out, index}; }
};

}  // namespace hushvec::cuda
