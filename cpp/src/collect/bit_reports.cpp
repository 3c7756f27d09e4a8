// Bits of a report drawn by two thresholds: a uniform of 64 binary digits for each bit, compared digit by digit for 512 bits at once.
//
// A comparison is decided at the first digit that differs from the threshold's. Of 512 uniforms some hundred thousandths of one are
// open after 16 digits, so that the other 48 are hardly ever drawn: 2 bytes of key stream a bit instead of 8. Which digits are
// drawn depends on the uniforms and the thresholds, never on the truth.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "dispatch/dispatch.hpp"
#include "hushvec/collect.hpp"
#include "parallel/threads.hpp"

namespace hushvec {
namespace {

constexpr std::size_t kUnitWords = 16;   // 512 bits: a digit of each is one line of a group
constexpr std::size_t kUnitBits = kUnitWords * kReportWordBits;
constexpr std::size_t kDigitsInGroup = kGroupSamples / kUnitWords;
constexpr std::size_t kMoreGroups = 64 / kDigitsInGroup - 1;
constexpr std::size_t kUnitsAtOnce = 16;   // their digits, 16 KiB, stay in the first-level cache

// Whether 512 uniforms lie below a threshold, as far as their digits are known.
class Comparison {
public:
    explicit Comparison(std::uint64_t threshold) : rest_(threshold) {
        std::fill(std::begin(open_), std::end(open_), ~std::uint32_t{0});
    }

    // The next digit of every uniform.
    void take(const std::uint32_t* digits) {
        const std::uint32_t digit_of_threshold = 0 - static_cast<std::uint32_t>(rest_ >> 63);
        rest_ <<= 1;
        for (std::size_t word = 0; word < kUnitWords; ++word) {
            below_[word] |= open_[word] & ~digits[word] & digit_of_threshold;
            open_[word] &= ~(digits[word] ^ digit_of_threshold);
        }
    }

    // With no further digit of the threshold at 1, no open uniform can come to lie below.
    bool decided() const {
        std::uint32_t any = 0;
        for (const std::uint32_t word : open_) any |= word;
        return any == 0 || rest_ == 0;
    }

    std::uint32_t below(std::size_t word) const { return below_[word]; }

private:
    std::uint64_t rest_;   // the threshold's digits that are still to come
    alignas(64) std::uint32_t below_[kUnitWords] = {};
    alignas(64) std::uint32_t open_[kUnitWords];
};

void take_group(const std::uint32_t* digits, Comparison& from_one, Comparison& from_zero) {
    for (std::size_t digit = 0; digit < kDigitsInGroup; ++digit) {
        from_one.take(digits + digit * kUnitWords);
        from_zero.take(digits + digit * kUnitWords);
    }
}

// One unit: bits of `truth` become bits of `out`, `words` words of each. `digits` are the first 16.
void draw_unit(const KeyStream& stream, const BitLaw& law, std::uint64_t unit, const std::uint32_t* digits, const std::uint32_t* truth,
               std::size_t words, std::uint32_t* out) {
    Comparison from_one(law.from_one);
    Comparison from_zero(law.from_zero);
    take_group(digits, from_one, from_zero);
    for (std::size_t group = 0; group < kMoreGroups && !(from_one.decided() && from_zero.decided()); ++group) {
        alignas(64) std::uint32_t more[kGroupSamples];
        active_kernels().keystream(stream, domain::kMoreDigits, unit * kMoreGroups + group, 1, more);
        take_group(more, from_one, from_zero);
    }
    std::uint32_t bits[kUnitWords];   // read once: with one of two readings in each half, a bit could follow neither law
    std::copy_n(truth, words, bits);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    for (std::size_t word = 0; word < words; ++word) out[word] = (from_one.below(word) & bits[word]) | (from_zero.below(word) & ~bits[word]);
}

std::uint32_t used_bits_of_last_word(std::size_t bits) {
    const std::size_t unused = report_words(bits) * kReportWordBits - bits;
    return ~std::uint32_t{0} >> unused;
}

// Reports whose number is known, in the layout of one call.
class BitReports {
public:
    BitReports(const KeyStream& stream, const BitLaw& law, std::size_t bits)
        : stream_(stream), law_(law), bits_(bits), words_(report_words(bits)), units_((bits + kUnitBits - 1) / kUnitBits) {}

    // `out` may be `truth`.
    void draw(std::uint64_t report, const std::uint32_t* truth, std::uint32_t* out) const {
        alignas(64) std::uint32_t digits[kUnitsAtOnce * kGroupSamples];
        for (std::size_t first = 0; first < units_; first += kUnitsAtOnce) {
            const std::size_t count = std::min(kUnitsAtOnce, units_ - first);
            active_kernels().keystream(stream_, domain::kDigits, report * units_ + first, count, digits);
            for (std::size_t i = 0; i < count; ++i) {
                const std::size_t begin = (first + i) * kUnitWords;
                draw_unit(stream_, law_, report * units_ + first + i, digits + i * kGroupSamples, truth + begin,
                          std::min(kUnitWords, words_ - begin), out + begin);
            }
        }
        out[words_ - 1] &= used_bits_of_last_word(bits_);
    }

    std::size_t words() const { return words_; }
    std::size_t samples_each() const { return units_ * kGroupSamples; }

private:
    const KeyStream& stream_;
    BitLaw law_;
    std::size_t bits_, words_, units_;
};

}  // namespace

void perturb_bits(const KeyStream& stream, const BitLaw& law, const BitRows& truth, std::uint32_t* out) {
    const BitReports reports(stream, law, truth.bits);
    parallel_for(truth.rows, reports.samples_each(), [&](std::size_t begin, std::size_t end) {
        for (std::size_t row = begin; row < end; ++row) {
            reports.draw(row, truth.words + row * reports.words(), out + row * reports.words());
        }
    });
}

void one_bit_reports(const KeyStream& stream, const BitLaw& law, const std::int64_t* codes, std::size_t count, std::size_t bits,
                     std::uint32_t* out) {
    const BitReports reports(stream, law, bits);
    parallel_for(count, reports.samples_each(), [&](std::size_t begin, std::size_t end) {
        for (std::size_t row = begin; row < end; ++row) {
            std::uint32_t* report = out + row * reports.words();
            const auto code = static_cast<std::uint64_t>(codes[row]);
            for (std::size_t word = 0; word < reports.words(); ++word) {   // every word is written: its place shows in no address
                report[word] = static_cast<std::uint32_t>(word == code / kReportWordBits) << (code % kReportWordBits);
            }
            reports.draw(row, report, report);
        }
    });
}

}  // namespace hushvec
