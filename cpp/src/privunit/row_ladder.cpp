#include "privunit/row_ladder.hpp"

#include "noise/float64_noise.hpp"
#include "noise/ladder_brackets.hpp"

namespace hushvec {
namespace {

constexpr double kDirectionUnit = 0x1p-21;   // X in units of |X|, nearly
constexpr std::size_t kHalf = kGroupSamples / 2;

// Z of one sample at the midpoint of 224 bits of its uniforms.
UnlimitedNumber normal_at_midpoint(const KeyStream& stream, std::uint64_t sample) {
    const std::uint64_t group = sample / kGroupSamples, lane = sample % kGroupBlocks;
    const std::size_t word = sample % kGroupSamples / kGroupBlocks;
    constexpr std::size_t kPairs = kBlockWords / 2;
    const std::size_t first = word % kPairs;
    const Block main = lane_block(stream, domain::kMain, group * kGroupBlocks + lane);
    const Block low = lane_block(stream, domain::kLowWords, group * kGroupBlocks + lane);
    const Block extension = stream_block(stream, domain::kFirstExtension, group * kGroupPairs + first * kGroupBlocks + lane);
    const auto uniform = [&](std::size_t at, std::size_t in_extension) {
        std::vector<std::uint32_t> words = {main[at], low[at]};
        for (std::size_t i = 0; words.size() < kUniformWords; ++i) words.push_back(extension[in_extension + i]);
        return words;
    };
    const auto radius = uniform(first, 0), angle = uniform(first + kPairs, kPairs);
    return multiprecision::gaussian_bracket<UnlimitedNumber>(radius, angle, word >= kPairs, 0.0, 1.0).centre;
}

}  // namespace

RowLadder::RowLadder(const KeyStream& stream, const PrivUnitRow& row, double s)
    : stream_(stream), row_(row), s_(s), offset_(row.first_sample % kGroupSamples) {
    find_float64();
}

void RowLadder::find_float64() {
    const std::size_t columns = row_.direction.size();
    const std::size_t groups = (offset_ + columns + kGroupSamples - 1) / kGroupSamples;
    z_.resize(groups * kGroupSamples);
    float64_noise(stream_, Law::gaussian, 1.0, row_.first_sample / kGroupSamples, groups, z_.data());

    auto radii = float64_row::Radii::none();
    for (std::size_t i = 0; i < z_.size(); ++i) {
        if (i % kGroupSamples < kHalf) radii.add(z_[i], z_[i + kHalf]);
    }
    double product = 0;
    for (std::size_t j = 0; j < columns; ++j) product += double{row_.direction[j]} * z_[offset_ + j];
    push_ = float64_row::push_of(s_, columns, row_.squares, product, radii, row_.component.value, row_.component.half_width);
}

std::int32_t RowLadder::round(std::size_t column, int first_level) {
    const std::size_t at = offset_ + column;
    const std::size_t partner = at % kGroupSamples < kHalf ? at + kHalf : at - kHalf;
    const float64_row::Rounding rounding = float64_row::round(push_, s_, z_[at], z_[partner], double{row_.direction[column]});
    if (first_level <= 2 && rounding.decided) return static_cast<std::int32_t>(rounding.n);
    return round_multiprecision(column, rounding.n);
}

void RowLadder::find_multiprecision() {
    const std::size_t columns = row_.direction.size();
    exact_z_.reserve(columns);
    for (std::size_t j = 0; j < columns; ++j) exact_z_.push_back(normal_at_midpoint(stream_, row_.first_sample + j));
    UnlimitedNumber pull = exactly(0);
    for (std::size_t j = 0; j < columns; ++j) pull -= exactly(double{row_.direction[j]} * kDirectionUnit) * exact_z_[j];
    const UnlimitedNumber squares = exactly(row_.squares * kDirectionUnit * kDirectionUnit);
    pull += component_at_midpoint(row_.component, row_.threshold) * sqrt(squares);
    exact_ = {squares, pull};
}

// T R^2 = s (R^2 Z_j + X_j (alpha R - D)), so that nothing is divided: n is the integer with |T R^2 - n R^2| <= R^2 / 2.
std::int32_t RowLadder::round_multiprecision(std::size_t column, double estimate) {
    if (exact_z_.empty()) find_multiprecision();
    UnlimitedNumber scaled = exact_z_[column];
    UnlimitedNumber squares = exactly(1);
    if (row_.squares != 0) {
        squares = exact_[0];
        scaled = squares * exact_z_[column];
        scaled += exactly(double{row_.direction[column]} * kDirectionUnit) * exact_[1];
    }
    scaled = exactly(s_) * scaled;
    const UnlimitedNumber half = squares * exactly(0.5);
    for (double n = estimate;;) {
        UnlimitedNumber distance = scaled;
        distance -= exactly(n) * squares;
        if (!smaller_magnitude(half, distance)) return static_cast<std::int32_t>(n);
        n += distance.negative() ? -1.0 : 1.0;
    }
}

}  // namespace hushvec
