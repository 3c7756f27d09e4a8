// Counts of ones: rows go through the kernel sixteen at a time, and the bit-sliced counters into int64 before they overflow.
#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "collect/bit_rows.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/collect.hpp"
#include "os/mutex.hpp"
#include "parallel/threads.hpp"

namespace hushvec {
namespace {

class BitCounter {
public:
    BitCounter(const Kernels& kernels, std::size_t bits)
        : kernels_(kernels), bits_(bits), words_(report_words(bits)), whole_chunks_(words_ / kCountedWords),
          tail_words_(words_ % kCountedWords), planes_((whole_chunks_ + 1) * kCountPlanes * kCountedWords), no_row_(words_) {}

    // `row(i)` for i < rows, at most 16, are the words of one row each; more of them follow bytes_ahead later, if that is not 0.
    template <class Row>
    void add(std::size_t rows, std::size_t bytes_ahead, Row row) {
        const std::uint32_t* pointers[kRowsAtOnce];
        for (std::size_t i = 0; i < kRowsAtOnce; ++i) pointers[i] = i < rows ? row(i) : no_row_.data();
        kernels_.add_bit_rows(pointers, whole_chunks_, bytes_ahead, planes_.data());
        if (tail_words_ > 0) add_tail(pointers);
        rows_ += kRowsAtOnce;
    }

    bool is_full() const { return rows_ == kMostCountedRows; }

    // Adds what was counted to `counts` and begins anew.
    void flush(std::int64_t* counts) {
        const auto used = static_cast<std::size_t>(std::bit_width(rows_));
        for (std::size_t word = 0; word < words_; ++word) {
            std::int64_t of_word[kReportWordBits] = {};
            for (std::size_t p = 0; p < used; ++p) {
                std::uint32_t& plane = planes_[(word / kCountedWords * kCountPlanes + p) * kCountedWords + word % kCountedWords];
                for (std::size_t bit = 0; bit < kReportWordBits; ++bit) of_word[bit] += std::int64_t{(plane >> bit) & 1} << p;
                plane = 0;
            }
            const std::size_t first = word * kReportWordBits;
            for (std::size_t bit = 0; bit < std::min(kReportWordBits, bits_ - first); ++bit) counts[first + bit] += of_word[bit];
        }
        rows_ = 0;
    }

private:
    // The words after the last whole chunk, filled up with zeros so that nothing past a row is read.
    void add_tail(const std::uint32_t* const* rows) {
        alignas(64) std::uint32_t filled[kRowsAtOnce][kCountedWords] = {};
        const std::uint32_t* pointers[kRowsAtOnce];
        for (std::size_t i = 0; i < kRowsAtOnce; ++i) {
            const std::uint32_t* tail = rows[i] + whole_chunks_ * kCountedWords;
            for (std::size_t word = 0; word < tail_words_; ++word) filled[i][word] = tail[word];
            pointers[i] = filled[i];
        }
        kernels_.add_bit_rows(pointers, 1, 0, planes_.data() + whole_chunks_ * kCountPlanes * kCountedWords);
    }

    const Kernels& kernels_;
    std::size_t bits_, words_, whole_chunks_, tail_words_;
    std::size_t rows_ = 0;
    std::vector<std::uint32_t> planes_;
    std::vector<std::uint32_t> no_row_;
};

}  // namespace

void check_bit_rows(const BitRows& reports) {
    const std::size_t words = report_words(reports.bits);
    const std::size_t used = reports.bits - (words - 1) * kReportWordBits;
    if (used == kReportWordBits) return;
    std::uint32_t beyond = 0;
    for (std::size_t row = 0; row < reports.rows; ++row) beyond |= reports.words[row * words + words - 1] >> used;
    if (beyond == 0) return;
    std::size_t row = 0;
    while (reports.words[row * words + words - 1] >> used == 0) ++row;
    throw std::invalid_argument("reports must have zeros past bit " + std::to_string(reports.bits - 1) + ", got a one in report " +
                                std::to_string(row));
}

void count_bits(const Kernels& kernels, const BitRows& reports, std::int64_t* counts) {
    const std::size_t words = report_words(reports.bits);
    const std::size_t stretches = (reports.rows + kRowsAtOnce - 1) / kRowsAtOnce;
    Mutex counts_mutex;
    const auto count_stretches = [&](std::size_t begin, std::size_t end) {
        BitCounter counter(kernels, reports.bits);
        const auto flush = [&] {
            const std::lock_guard<Mutex> lock(counts_mutex);
            counter.flush(counts);
        };
        for (std::size_t stretch = begin; stretch < end; ++stretch) {
            const std::size_t first = stretch * kRowsAtOnce;
            const std::size_t rows = std::min(kRowsAtOnce, reports.rows - first);
            counter.add(rows, kRowsAtOnce * words * sizeof(std::uint32_t),
                        [&](std::size_t i) { return reports.words + (first + i) * words; });
            if (counter.is_full()) flush();
        }
        flush();
    };
    parallel_for(stretches, kRowsAtOnce * words, count_stretches, kOneRange);
}

void count_bits(const BitRows& reports, std::int64_t* counts) { count_bits(active_kernels(), reports, counts); }

void count_bits_by_group(const BitRows& reports, const std::uint32_t* groups, std::size_t group_count, std::int64_t* counts) {
    const std::size_t words = report_words(reports.bits);
    std::vector<std::size_t> ends(group_count + 1);   // after the sort below: where the rows of a group end in `order`
    for (std::size_t row = 0; row < reports.rows; ++row) ++ends[groups[row] + 1];
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    const std::vector<std::size_t> begins(ends.begin(), ends.end() - 1);
    std::vector<const std::uint32_t*> order(reports.rows);
    for (std::size_t row = 0; row < reports.rows; ++row) order[ends[groups[row]]++] = reports.words + row * words;

    parallel_for(group_count, (reports.rows / group_count + 1) * words, [&](std::size_t first_group, std::size_t last_group) {
        BitCounter counter(active_kernels(), reports.bits);
        for (std::size_t group = first_group; group < last_group; ++group) {
            for (std::size_t first = begins[group]; first < ends[group]; first += kRowsAtOnce) {
                const std::size_t rows = std::min(kRowsAtOnce, ends[group] - first);
                counter.add(rows, 0, [&](std::size_t i) { return order[first + i]; });
                if (counter.is_full()) counter.flush(counts + group * reports.bits);
            }
            counter.flush(counts + group * reports.bits);
        }
    });
}

// Codes are checked and counted in a copy: another thread may write to the caller's.
template <class Code>
void count_codes(const Code* codes, std::size_t count, std::uint64_t labels, std::int64_t* counts) {
    if (count < labels) {
        const std::vector<Code> all(codes, codes + count);
        check_codes(all.data(), count, labels, 0);
        for (const Code code : all) ++counts[static_cast<std::size_t>(code)];
        return;
    }
    constexpr std::size_t kAtOnce = 4096;
    std::vector<std::int64_t> tallies(static_cast<std::size_t>(labels));
    Code some[kAtOnce];
    for (std::size_t first = 0; first < count; first += kAtOnce) {
        const std::size_t length = std::min(kAtOnce, count - first);
        std::copy_n(codes + first, length, some);
        check_codes(some, length, labels, first);
        for (std::size_t i = 0; i < length; ++i) ++tallies[static_cast<std::size_t>(some[i])];
    }
    for (std::size_t label = 0; label < labels; ++label) counts[label] += tallies[label];
}

template void count_codes<std::int8_t>(const std::int8_t*, std::size_t, std::uint64_t, std::int64_t*);
template void count_codes<std::int16_t>(const std::int16_t*, std::size_t, std::uint64_t, std::int64_t*);
template void count_codes<std::int32_t>(const std::int32_t*, std::size_t, std::uint64_t, std::int64_t*);
template void count_codes<std::int64_t>(const std::int64_t*, std::size_t, std::uint64_t, std::int64_t*);
template void count_codes<std::uint8_t>(const std::uint8_t*, std::size_t, std::uint64_t, std::int64_t*);
template void count_codes<std::uint16_t>(const std::uint16_t*, std::size_t, std::uint64_t, std::int64_t*);
template void count_codes<std::uint32_t>(const std::uint32_t*, std::size_t, std::uint64_t, std::int64_t*);
template void count_codes<std::uint64_t>(const std::uint64_t*, std::size_t, std::uint64_t, std::int64_t*);

}  // namespace hushvec
