// Randomized response on codes: one 64-bit uniform each, no rejection, no branch that depends on an answer.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "discrete/response_intervals.hpp"
#include "discrete/sample_words.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/discrete.hpp"
#include "parallel/threads.hpp"

namespace hushvec {
namespace {

// Groups first_group .. first_group + groups - 1 of a call of `count` answers; groups <= kGroupsAtOnce.
template <class Code>
void respond(const KeyStream& stream, const ResponseLaw& law, std::size_t first_group, std::size_t groups, const Code* codes,
             std::size_t count, Code* out) {
    const ResponseIntervals intervals(law);
    alignas(64) std::uint32_t high[kGroupsAtOnce * kGroupSamples];
    alignas(64) std::uint32_t low[kGroupsAtOnce * kGroupSamples];
    const Kernels& kernels = active_kernels();
    kernels.keystream(stream, domain::kResponseHigh, first_group, groups, high);
    kernels.keystream(stream, domain::kResponseLow, first_group, groups, low);
    const std::size_t begin = first_group * kGroupSamples;
    const std::size_t end = std::min(count, begin + groups * kGroupSamples);
    for (std::size_t i = begin; i < end; ++i) {
        const std::uint64_t uniform = (std::uint64_t{high[i - begin]} << 32) | low[i - begin];
        out[i] = static_cast<Code>(intervals.answer(static_cast<std::uint32_t>(codes[i]), uniform));
    }
}

}  // namespace

template <class Code>
void check_codes(const Code* codes, std::size_t count, std::uint64_t labels, std::size_t first_position) {
    bool all = true;
    for (std::size_t i = 0; i < count; ++i) all &= is_code(codes[i], labels);
    if (all) return;
    const Code* wrong = std::find_if_not(codes, codes + count, [&](Code value) { return is_code(value, labels); });
    throw std::invalid_argument("codes must be in [0, " + std::to_string(labels) + "), got " + std::to_string(*wrong) + " at position " +
                                std::to_string(first_position + static_cast<std::size_t>(wrong - codes)));
}

template <class Code>
void randomized_response(const KeyStream& stream, const ResponseLaw& law, const Code* codes, std::size_t count, Code* out) {
    parallel_for((count + kGroupSamples - 1) / kGroupSamples, kGroupSamples, [&](std::size_t begin, std::size_t end) {
        for (std::size_t group = begin; group < end; group += kGroupsAtOnce) {
            respond(stream, law, group, std::min(kGroupsAtOnce, end - group), codes, count, out);
        }
    });
}

#define HUSHVEC_FOR_CODE(Code)                                                             \
    template void check_codes<Code>(const Code*, std::size_t, std::uint64_t, std::size_t); \
    template void randomized_response<Code>(const KeyStream&, const ResponseLaw&, const Code*, std::size_t, Code*)
HUSHVEC_FOR_CODE(std::int8_t);
HUSHVEC_FOR_CODE(std::int16_t);
HUSHVEC_FOR_CODE(std::int32_t);
HUSHVEC_FOR_CODE(std::int64_t);
HUSHVEC_FOR_CODE(std::uint8_t);
HUSHVEC_FOR_CODE(std::uint16_t);
HUSHVEC_FOR_CODE(std::uint32_t);
HUSHVEC_FOR_CODE(std::uint64_t);
#undef HUSHVEC_FOR_CODE

}  // namespace hushvec
