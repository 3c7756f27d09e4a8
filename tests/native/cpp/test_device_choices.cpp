// The CUDA kernels' bodies for discrete choices, run on the host thread by thread. Answers are the CPU core's.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "check.hpp"
#include "device/response_body.hpp"
#include "hushvec/discrete.hpp"
#include "test_stream.hpp"

namespace {

using namespace hushvec;
using namespace hushvec::cuda;
using test::check;
using test::test_stream;

constexpr Report kEmpty = {kNoRow, 0, 0};

// Elements between two stretches that nothing may write to, and whose bytes are no code.
template <class Element>
class Guarded {
public:
    explicit Guarded(std::size_t count) : size_(count), memory_(count + 2 * kGuard) { std::memset(memory_.data(), 0xA5, memory_.size() * sizeof(Element)); }
    explicit Guarded(const std::vector<Element>& inside) : Guarded(inside.size()) { std::copy(inside.begin(), inside.end(), data()); }
    Element* data() { return memory_.data() + kGuard; }
    std::vector<Element> inside() { return {data(), data() + size_}; }
    bool intact() const {
        const Guarded fresh(size_);
        return std::memcmp(memory_.data(), fresh.memory_.data(), kGuard * sizeof(Element)) == 0 &&
               std::memcmp(memory_.data() + kGuard + size_, fresh.memory_.data(), kGuard * sizeof(Element)) == 0;
    }

private:
    static constexpr std::size_t kGuard = 512;   // two groups
    std::size_t size_;
    std::vector<Element> memory_;
};

template <class Code>
std::vector<Code> codes_of(std::size_t count, std::uint64_t labels) {
    std::vector<Code> codes(count);
    for (std::size_t i = 0; i < count; ++i) codes[i] = static_cast<Code>(i * 7 % labels);
    return codes;
}

// As the array's own type has them, and as the device takes them: without a sign.
template <class Unsigned, class Code>
std::vector<Unsigned> as_unsigned(const std::vector<Code>& codes) {
    static_assert(sizeof(Unsigned) == sizeof(Code));
    std::vector<Unsigned> result(codes.size());
    if (!codes.empty()) std::memcpy(result.data(), codes.data(), codes.size() * sizeof(Code));
    return result;
}

template <class Unsigned>
std::uint64_t copied(Unsigned* codes, Unsigned* out, std::size_t count, std::uint64_t labels, std::size_t blocks) {
    Report report = kEmpty;
    const CopyCodesBody<Unsigned> body = {codes, out, count, labels, &report};
    for (std::size_t block = blocks; block-- > 0;) body.run(block, blocks, HostTeam{kResponseThreads});
    return report.first_bad_row;
}

template <class Code, class Unsigned>
void answers_equal_the_core(Cipher cipher, std::size_t count, double epsilon, std::uint64_t labels) {
    const std::string what = std::to_string(count) + " codes of " + std::to_string(sizeof(Code)) + " bytes, " + std::to_string(labels) + " labels, " + hushvec::name_of(cipher);
    const ResponseLaw law = response_law(epsilon, labels);
    const std::vector<Code> codes = codes_of<Code>(count, labels);
    std::vector<Code> expected(count);
    hushvec::randomized_response(test_stream(cipher), law, codes.data(), count, expected.data());

    Guarded<Unsigned> from(as_unsigned<Unsigned>(codes)), out(count);
    check(copied(from.data(), out.data(), count, labels, 2) == kNoRow, "all are codes: " + what);
    check(out.inside() == from.inside() && out.intact(), "they are copied: " + what);
    for (const std::size_t blocks : {std::size_t{1}, std::size_t{3}}) {
        Guarded<Unsigned> in_place(as_unsigned<Unsigned>(codes)), apart(count);
        for (Guarded<Unsigned>* target : {&in_place, &apart}) {
            const Unsigned* const source = target == &apart ? from.data() : in_place.data();
            const ResponseBody<Unsigned> body = {{test_stream(cipher)}, ResponseIntervals(law), source, target->data(), count};
            for (std::size_t block = 0; block < blocks; ++block) body.run(block, blocks, HostTeam{kResponseThreads});
            check(target->inside() == as_unsigned<Unsigned>(expected) && target->intact(), "answers: " + what);
        }
    }
    check(from.inside() == as_unsigned<Unsigned>(codes) && from.intact(), "the codes stay: " + what);
}

template <class Code, class Unsigned>
void answers_of_type() {
    const auto most = static_cast<std::uint64_t>(std::numeric_limits<Code>::max());
    for (const std::size_t count : {0u, 1u, 15u, 16u, 17u, 255u, 256u, 257u, 4096u, 12345u}) answers_equal_the_core<Code, Unsigned>(Cipher::chacha12, count, 1.0, 100);
    for (const std::uint64_t labels : {std::uint64_t{2}, std::uint64_t{3}, std::min(most, kMostLabels - 1) + 1}) {
        for (const double epsilon : {0.01, 2.0, 50.0}) answers_equal_the_core<Code, Unsigned>(Cipher::chacha20, 3000, epsilon, labels);
    }
}

// Every place of a short array, and the first of many where blocks stride; numbers below 0 and above every label.
template <class Code, class Unsigned>
void the_first_that_is_no_code() {
    bool found = true;
    for (const std::uint64_t labels : {std::uint64_t{2}, std::uint64_t{100}}) {
        const Code below = static_cast<Code>(-1), least = std::numeric_limits<Code>::min(), most = std::numeric_limits<Code>::max();
        for (const Code bad : {static_cast<Code>(labels), below, least, most}) {
            if (bad == 0) continue;   // the least of a type without a sign
            for (const std::size_t count : {std::size_t{7}, std::size_t{5000}}) {
                for (std::size_t place = 0; place < count; place += 1 + count / 50) {
                    std::vector<Code> codes = codes_of<Code>(count, labels);
                    codes[place] = codes[count - 1] = bad;
                    Guarded<Unsigned> from(as_unsigned<Unsigned>(codes)), out(count);
                    for (const std::size_t blocks : {1u, 3u}) found &= copied(from.data(), out.data(), count, labels, blocks) == place;
                }
            }
        }
    }
    check(found, "the first number that is no code, " + std::to_string(sizeof(Code)) + " bytes");
}

template <class Code, class Unsigned>
void responses() {
    answers_of_type<Code, Unsigned>();
    the_first_that_is_no_code<Code, Unsigned>();
}

}  // namespace

int main() {
    responses<std::int8_t, std::uint8_t>();
    responses<std::int16_t, std::uint16_t>();
    responses<std::int32_t, std::uint32_t>();
    responses<std::int64_t, std::uint64_t>();
    responses<std::uint8_t, std::uint8_t>();
    responses<std::uint16_t, std::uint16_t>();
    responses<std::uint32_t, std::uint32_t>();
    responses<std::uint64_t, std::uint64_t>();
    return test::summary();
}
