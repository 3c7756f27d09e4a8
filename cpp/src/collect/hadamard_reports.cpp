// Hadamard response: randomized response over half-blocks, then a uniform column of the half that was named.
//
// The columns of a block fall into two halves by the sign of the word's row: cell 2 block is where it has +1, cell 2 block + 1 where
// it has -1. Of the 2 * blocks cells one is the truth; every cell has order / 2 columns.
#include <algorithm>
#include <bit>

#include "discrete/response_intervals.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/collect.hpp"
#include "parallel/threads.hpp"

namespace hushvec {
namespace {

constexpr std::size_t kGroupsAtOnce = 8;

// A column with sign (-1)^half in row `row` >= 1 of the Hadamard matrix H[r][c] = (-1)^popcount(r & c), from any column: two
// columns lead to each.
std::uint32_t column_in_half(std::uint32_t row, std::uint32_t column, std::uint32_t half) {
    const std::uint32_t is_in_other = (static_cast<std::uint32_t>(std::popcount(row & column)) ^ half) & 1;
    const std::uint32_t lowest_bit = row & (0 - row);
    return column ^ (lowest_bit & (0 - is_in_other));
}

void report(const KeyStream& stream, const HadamardLaw& law, std::size_t first_group, std::size_t groups, const std::int64_t* codes,
            std::size_t count, std::uint32_t* out) {
    const ResponseIntervals intervals(law.law);
    alignas(64) std::uint32_t high[kGroupsAtOnce * kGroupSamples];
    alignas(64) std::uint32_t low[kGroupsAtOnce * kGroupSamples];
    alignas(64) std::uint32_t columns[kGroupsAtOnce * kGroupSamples];
    const Kernels& kernels = active_kernels();
    kernels.keystream(stream, domain::kCellHigh, first_group, groups, high);
    kernels.keystream(stream, domain::kCellLow, first_group, groups, low);
    kernels.keystream(stream, domain::kColumn, first_group, groups, columns);
    const auto blocks = static_cast<std::uint32_t>(law.blocks);
    const auto order = static_cast<std::uint32_t>(law.order);
    const int block_bits = std::countr_zero(blocks);
    const std::size_t begin = first_group * kGroupSamples;
    const std::size_t end = std::min(count, begin + groups * kGroupSamples);
    for (std::size_t i = begin; i < end; ++i) {
        const auto code = static_cast<std::uint32_t>(codes[i]);
        const std::uint32_t row = (code >> block_bits) + 1;
        const std::uint64_t uniform = (std::uint64_t{high[i - begin]} << 32) | low[i - begin];
        const std::uint32_t cell = (2 * (code & (blocks - 1)) + intervals.number_of(uniform)) & (2 * blocks - 1);
        const std::uint32_t column = column_in_half(row, columns[i - begin] & (order - 1), cell & 1);
        out[i] = (cell / 2) * order + column;
    }
}

}  // namespace

void hadamard_reports(const KeyStream& stream, const HadamardLaw& law, const std::int64_t* codes, std::size_t count, std::uint32_t* out) {
    parallel_for((count + kGroupSamples - 1) / kGroupSamples, kGroupSamples, [&](std::size_t begin, std::size_t end) {
        for (std::size_t group = begin; group < end; group += kGroupsAtOnce) {
            report(stream, law, group, std::min(kGroupsAtOnce, end - group), codes, count, out);
        }
    });
}

}  // namespace hushvec
