// PrivUnitG (docs/format.md section 8), a block a row: what cpp/src/privunit/privunit.cpp does, with its arithmetic.
//
//   load       the row, read once: out may be x
//   norm       a warp, in the frozen order; a row with NaN or Inf is reported and has no direction
//   direction  X
//   normals    z of all groups that the row touches, in float32, by half warps: a group each; they take the row's place
//   sums       |X|^2, the product of X and z, the radii that bound its error
//   rounding   level 1 of every sample; where one is open, the row once more in float64, with normals made anew
//
// A row that float64 leaves open goes into a list for the host, with its X.
#pragma once

#include <cmath>
#include <limits>

#include "device/component_body.hpp"
#include "device/element.hpp"
#include "device/open_rows.hpp"
#include "device/row_norm.hpp"
#include "device/team.hpp"
#include "device/thread_lane.hpp"
#include "noise/exact_round.hpp"
#include "noise/variate.hpp"
#include "privunit/direction_scale.hpp"
#include "privunit/privunit.hpp"
#include "privunit/row_float64.hpp"
#include "privunit/row_round.hpp"

namespace hushvec::cuda {

inline constexpr unsigned kPrivUnitThreads = 64;   // rows of 768 and 1024 have 48 and 64 blocks of the key stream
inline constexpr unsigned kPrivUnitHalfWarps = kPrivUnitThreads / kGroupBlocks;

// Of the CPU's polynomials with fused products (error_bounds.hpp: 5.56e-7), and a square root that may be off by 2^-24 more on a device.
inline constexpr ErrorBound kUnitNormalBound = {1.5e-7f, 6.3e-8f, 6.16e-7f};

struct PrivUnitShape {
    std::size_t rows;
    std::uint32_t columns;

    // Groups that a row reaches into, at most.
    constexpr std::uint32_t groups() const {
        return columns % kGroupSamples == 0 ? columns / kGroupSamples : static_cast<std::uint32_t>((columns - 1) / kGroupSamples + 2);
    }
};

// The part of a block's memory that grows with the row: shared, or global for long rows.
template <class Stored>
struct PrivUnitMemory {
    Wide<Stored>* elements;
    float* z;           // takes the place of the elements
    float* direction;   // X

    HUSHVEC_INLINE PrivUnitMemory(void* memory, const PrivUnitShape& shape)
        : elements(static_cast<Wide<Stored>*>(memory)), z(static_cast<float*>(memory)),
          direction(reinterpret_cast<float*>(static_cast<std::byte*>(memory) + z_bytes(shape))) {}

    static constexpr std::size_t bytes(const PrivUnitShape& shape) {
        return z_bytes(shape) + (shape.columns * sizeof(float) + 15) / 16 * 16;
    }

private:
    HUSHVEC_DEVICE static constexpr std::size_t z_bytes(const PrivUnitShape& shape) {
        const std::size_t of_x = (shape.columns * sizeof(Wide<Stored>) + 15) / 16 * 16, of_z = shape.groups() * kGroupSamples * sizeof(float);
        return of_x > of_z ? of_x : of_z;
    }
};

// What the threads of a block share about their row.
struct PrivUnitRowState {
    double sum_of_squares;   // of the row's elements
    double scale;            // from an element to X
    double sums[3];          // of X^2, X z, z^2
    DrawnComponent alpha;
    float push;
    float per_direction;
    // level 2
    double products[kPrivUnitThreads];             // of each thread's X and z
    float64_row::Radii radii[kPrivUnitThreads];
    double product;
    float64_row::Push wide_push;
    std::uint32_t slot;
};

template <class Stored>
struct PrivUnitBody {
    KeyStream stream;
    const Stored* x;
    Stored* out;
    PrivUnitShape shape;
    float s;
    float grid;
    level_one::Limits limits;
    DrawnComponent* components;   // each is zeros when its row is done
    OpenRows open_rows;
    PrivUnitTrial trial;

    template <class Team>
    HUSHVEC_INLINE void run(std::size_t block, std::size_t blocks, const PrivUnitMemory<Stored>& memory, PrivUnitRowState& state,
                            const Team& team) const {
        for (std::size_t row = block; row < shape.rows; row += blocks) run_row(Place(row, shape.columns), memory, state, team);
    }

private:
    static constexpr auto kGroup = static_cast<std::uint32_t>(kGroupSamples), kHalf = kGroup / 2;
    static constexpr auto kLanes = static_cast<unsigned>(kGroupBlocks);

    // Where a row lies in the groups that it touches; samples in memory count from the first group's beginning.
    struct Place {
        std::size_t row;
        std::size_t first_sample;
        std::uint64_t first_group;
        std::uint32_t begin, groups;

        HUSHVEC_INLINE Place(std::size_t number, std::uint32_t columns)
            : row(number), first_sample(number * columns), first_group(first_sample / kGroup),
              begin(static_cast<std::uint32_t>(first_sample % kGroup)), groups((begin + columns + kGroup - 1) / kGroup) {}
    };

    template <class Team>
    HUSHVEC_INLINE void run_row(const Place at, const PrivUnitMemory<Stored>& memory, PrivUnitRowState& state, const Team& team) const {
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            for (std::uint32_t j = thread; j < shape.columns; j += kPrivUnitThreads) memory.elements[j] = widened(x[at.first_sample + j]);
        });
        team.sums(
            1, [&](std::uint32_t, unsigned t) HUSHVEC_INLINE_LAMBDA { return accumulator(shape.columns, t, reader(memory.elements)); },
            [&](std::uint32_t, double sum) HUSHVEC_INLINE_LAMBDA { state.sum_of_squares = sum; });
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            if (thread != 0) return;
            state.scale = find_scale(at.row, state.sum_of_squares, memory.elements);
            state.alpha = components[at.row];
            components[at.row] = {};
        });
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA { find_direction(memory, state.scale, thread); });
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA { make_normals(at, memory.z, thread); });
        team.sums(
            3, [&](std::uint32_t i, unsigned t) HUSHVEC_INLINE_LAMBDA { return sum_of(i, at, memory, t); },
            [&](std::uint32_t i, double sum) HUSHVEC_INLINE_LAMBDA { state.sums[i] = sum; });
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            if (thread == 0) find_push(state);
        });
        const bool open = team.any([&](unsigned thread) HUSHVEC_INLINE_LAMBDA { return !round_row(at, memory, state.push, state.per_direction, thread); });
        if (open) settle_row(at, memory, state, team);
    }

    template <class Value>
    static HUSHVEC_INLINE auto reader(const Value* elements) {
        return [elements](std::uint32_t j) { return elements[j]; };
    }

    // NaN for a row with NaN or Inf.
    HUSHVEC_INLINE double find_scale(std::size_t row, double sum_of_squares, Wide<Stored>* elements) const {
        const double norm = std::isfinite(sum_of_squares) ? std::sqrt(sum_of_squares) : norm_of_reduced(elements);
        if (std::isnan(norm)) atomic_minimum(&open_rows.report->first_bad_row, row);
        return direction_scale(norm);
    }

    // Squares of float32 do not overflow in float64. A float64 row whose squares do is scaled, in memory.
    HUSHVEC_COLD double norm_of_reduced(Wide<Stored>* elements) const {
        constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
        if constexpr (sizeof(Wide<Stored>) == sizeof(float)) {
            return kNone;
        } else {
            double largest = 0;
            for (std::uint32_t j = 0; j < shape.columns; ++j) {
                if (!std::isfinite(elements[j])) return kNone;
                largest = std::fabs(elements[j]) > largest ? std::fabs(elements[j]) : largest;
            }
            const double factor = std::ldexp(1.0, -reduction_exponent(largest));
            double accumulators[kWarp] = {};
            for (std::uint32_t j = 0; j < shape.columns; ++j) {
                elements[j] *= factor;
                accumulators[j % kWarp] += elements[j] * elements[j];
            }
            return std::sqrt(tree_sum(accumulators));
        }
    }

    HUSHVEC_INLINE void find_direction(const PrivUnitMemory<Stored>& memory, double scale, unsigned thread) const {
        for (std::uint32_t j = thread; j < shape.columns; j += kPrivUnitThreads) {
            if constexpr (sizeof(Wide<Stored>) == sizeof(float)) {
                memory.direction[j] = nearest_integer<Thread>(memory.elements[j] * static_cast<float>(scale));
            } else {
                memory.direction[j] = direction_of(memory.elements[j], scale);
            }
            if (std::isnan(scale)) memory.direction[j] = 0;
        }
    }

    // A z without a bound is infinite, and so are the sums of its row, which level 1 then leaves open.
    HUSHVEC_INLINE void make_normals(const Place& at, float* z, unsigned thread) const {
        ChaChaLanes<Thread> chacha(stream, domain::kMain);
        const unsigned lane = thread % kLanes;
        for (std::uint32_t group = thread / kLanes; group < at.groups; group += kPrivUnitHalfWarps) {
            std::uint32_t words[kBlockWords];
            const std::uint64_t block = (at.first_group + group) * kGroupBlocks + lane;
            chacha.blocks(block, words, 1);
            float* const target = z + group * kGroup + lane;
            HUSHVEC_UNROLL
            for (unsigned word = 0; word < kBlockWords / 2; ++word) {
                const std::uint32_t radius_word = words[word], angle_word = words[word + 8];
                const NormalPair<Thread> normal = normal_pair<Thread>(radius_word, angle_word);
                const float radius = Thread::flip_sign(normal.radius, angle_word);
                LanePair<Thread> pair = {radius * normal.cosine, radius * normal.sine};
                if (outside_window<Thread, kGaussianWindow>(radius_word)) [[unlikely]] {
                    pair = outside_pair(block, word, radius_word, angle_word);
                }
                target[word * kLanes] = pair.cosine;
                target[word * kLanes + kHalf] = pair.sine;
            }
        }
    }

    // Float64 normals of 64 bits, rounded.
    HUSHVEC_COLD LanePair<Thread> outside_pair(std::uint64_t block, unsigned word, std::uint32_t radius_word, std::uint32_t angle_word) const {
        constexpr float kNoBound = std::numeric_limits<float>::infinity();
        if (radius_word == 0) return {kNoBound, kNoBound};
        Block low;
        ChaChaLanes<Thread>(stream, domain::kLowWords).blocks(block, low.data(), 1);
        const NormalVariates z = normal_variates(radius_word, angle_word, low[word], low[word + 8]);
        return {static_cast<float>(z.cosine), static_cast<float>(z.sine)};
    }

    // Thread t's part of sum i of three; the third is over all groups that the row touches.
    HUSHVEC_INLINE double sum_of(std::uint32_t i, const Place& at, const PrivUnitMemory<Stored>& memory, unsigned t) const {
        const float* const direction = memory.direction;
        const float* const z = memory.z + at.begin;
        if (i == 0) return accumulator(shape.columns, t, reader(direction));
        if (i == 2) return accumulator(at.groups * kGroup, t, reader(static_cast<const float*>(memory.z)));
        double sum = 0;
        for (std::uint32_t j = t; j < shape.columns; j += kWarp) sum += double{direction[j]} * double{z[j]};
        return sum;
    }

    HUSHVEC_INLINE void find_push(PrivUnitRowState& state) const {
        // Both samples of a pair count its squared radius: twice the sum of their squares.
        const level_one::Push push = level_one::push_of(kUnitNormalBound, double{s}, shape.columns, {state.sums[0], state.sums[1]}, 2 * state.sums[2],
                                                        state.alpha.value, state.alpha.half_width);
        const bool bounded = std::isfinite(push.error);   // else NaN opens the whole row
        const double error = push.error > level_one::kSmallestError ? push.error : level_one::kSmallestError;
        state.push = bounded ? push.value : std::numeric_limits<float>::quiet_NaN();
        state.per_direction = level_one::rounded_up(trial.bound_factor * error);
    }

    HUSHVEC_INLINE void store(const Place& at, std::uint32_t column, float n) const {
        out[at.first_sample + column] = narrowed<Stored>(static_cast<Wide<Stored>>(n * grid));
    }

    // Level 1. What stays open is marked by NaN in place of z. False where there is such a sample.
    HUSHVEC_INLINE bool round_row(const Place& at, const PrivUnitMemory<Stored>& memory, float push, float per_direction, unsigned thread) const {
        bool decided = true;
        const auto round_one = [&](std::uint32_t sample, float z, float pair_limit) HUSHVEC_INLINE_LAMBDA {
            const std::uint32_t column = sample - at.begin;   // wraps before the row
            if (column >= shape.columns) return;
            const auto rounding = privunit_round_one<Thread>(s, z, memory.direction[column], push, per_direction, pair_limit);
            store(at, column, rounding.n);
            if (!rounding.open) return;
            memory.z[sample] = std::numeric_limits<float>::quiet_NaN();
            decided = false;
        };
        for (std::uint32_t i = thread; i < at.groups * kHalf; i += kPrivUnitThreads) {
            const std::uint32_t first = i / kHalf * kGroup + i % kHalf;
            const float z = memory.z[first], partner = memory.z[first + kHalf];
            const float pair_limit = privunit_pair_limit<Thread>(z, partner, limits.per_magnitude, limits.at_zero);
            round_one(first, z, pair_limit);
            round_one(first + kHalf, partner, pair_limit);
        }
        return decided;
    }

    // Level 2, a few rows in a hundred.
    template <class Team>
    HUSHVEC_INLINE void settle_row(const Place& at, const PrivUnitMemory<Stored>& memory, PrivUnitRowState& state, const Team& team) const {
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA { find_wide_sums(at, memory, state, thread); });
        team.sums(
            1, [&](std::uint32_t, unsigned t) HUSHVEC_INLINE_LAMBDA { return state.products[t] + state.products[t + kWarp]; },
            [&](std::uint32_t, double sum) HUSHVEC_INLINE_LAMBDA { state.product = sum; });
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            if (thread == 0) find_wide_push(state);
        });
        const bool undecided = team.any([&](unsigned thread) HUSHVEC_INLINE_LAMBDA { return !settle_samples(at, memory, state.wide_push, thread); });
        if (!undecided) return;
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            if (thread == 0) state.slot = open_rows.add(at.row);
        });
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            if (state.slot >= open_rows.capacity) return;
            float* const kept = open_rows.directions + std::size_t{state.slot} * shape.columns;
            for (std::uint32_t j = thread; j < shape.columns; j += kPrivUnitThreads) kept[j] = memory.direction[j];
        });
    }
    static_assert(kPrivUnitThreads == 2 * kWarp);

    // Calls visit(first sample, its float64 normal, that of its partner) for the thread's pairs; wants(group) says which of its blocks to make.
    template <class Wants, class Visit>
    HUSHVEC_INLINE void for_wide_pairs(const Place& at, unsigned thread, Wants wants, Visit visit) const {
        ChaChaLanes<Thread> main(stream, domain::kMain), low(stream, domain::kLowWords);
        const unsigned lane = thread % kLanes;
        HUSHVEC_UNROLL_BY(1)
        for (std::uint32_t group = thread / kLanes; group < at.groups; group += kPrivUnitHalfWarps) {
            if (!wants(group)) continue;
            std::uint32_t words[kBlockWords], low_words[kBlockWords];
            main.blocks((at.first_group + group) * kGroupBlocks + lane, words, 1);
            low.blocks((at.first_group + group) * kGroupBlocks + lane, low_words, 1);
            HUSHVEC_UNROLL_BY(1)
            for (unsigned word = 0; word < kBlockWords / 2; ++word) {
                const NormalVariates z = normal_variates(words[word], words[word + 8], low_words[word], low_words[word + 8]);
                visit(group * kGroup + word * kLanes + lane, z.cosine, z.sine);
            }
        }
    }

    HUSHVEC_COLD void find_wide_sums(const Place& at, const PrivUnitMemory<Stored>& memory, PrivUnitRowState& state, unsigned thread) const {
        double product = 0;
        auto radii = float64_row::Radii::none();
        const auto add = [&](std::uint32_t sample, double z) {
            const std::uint32_t column = sample - at.begin;
            if (column < shape.columns) product += double{memory.direction[column]} * z;
        };
        for_wide_pairs(
            at, thread, [](std::uint32_t) { return true; },
            [&](std::uint32_t first, double z, double partner) {
                radii.add(z, partner);
                add(first, z);
                add(first + kHalf, partner);
            });
        state.products[thread] = product;
        state.radii[thread] = radii;
    }

    HUSHVEC_COLD void find_wide_push(PrivUnitRowState& state) const {
        auto radii = float64_row::Radii::none();
        for (const float64_row::Radii& of_thread : state.radii) radii.add(of_thread);
        state.wide_push =
            float64_row::push_of(double{s}, shape.columns, state.sums[0], state.product, radii, state.alpha.value, state.alpha.half_width);
    }

    // False where a sample of this thread stays open.
    HUSHVEC_COLD bool settle_samples(const Place& at, const PrivUnitMemory<Stored>& memory, const float64_row::Push& push, unsigned thread) const {
        bool decided = true;
        const auto is_open = [&](std::uint32_t sample) { return sample - at.begin < shape.columns && std::isnan(memory.z[sample]); };
        const auto settle = [&](std::uint32_t sample, double z, double partner) {
            if (!is_open(sample)) return;
            const std::uint32_t column = sample - at.begin;
            const float64_row::Rounding rounding = float64_row::round(push, double{s}, z, partner, double{memory.direction[column]});
            const bool accepted = rounding.decided && trial.first_level <= 2;
            if (accepted) store(at, column, static_cast<float>(static_cast<std::int32_t>(rounding.n)));
            decided = decided && accepted;
        };
        for_wide_pairs(
            at, thread,
            [&](std::uint32_t group) {
                bool any = false;
                for (unsigned word = 0; word < kBlockWords; ++word) any = any || is_open(group * kGroup + word * kLanes + thread % kLanes);
                return any;
            },
            [&](std::uint32_t first, double z, double partner) {
                settle(first, z, partner);
                settle(first + kHalf, partner, z);
            });
        return decided;
    }
};

}  // namespace hushvec::cuda
