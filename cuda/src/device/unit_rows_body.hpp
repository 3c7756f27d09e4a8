// Rows of unit length, a warp for each row. The sum of squares has the frozen order (docs/format.md section 4), and each step is the CPU
// core's (cpp/src/clip/unit_rows.cpp), so the bits are the same.
//
// x is read twice, or three times for float64; a row of some thousand elements should still be in the first-level cache then.
#pragma once

#include <cmath>
#include <limits>

#include "device/row_norm.hpp"

namespace hushvec::cuda {

inline constexpr unsigned kUnitRows = 8;   // of one block
inline constexpr unsigned kUnitThreads = kUnitRows * kWarp;

// Shared by a block, one entry for each of its rows.
struct UnitRowsMemory {
    double of_threads[kUnitRows][kWarp];   // largest magnitudes, then accumulators
    double norms[kUnitRows];               // NaN for a row that holds NaN or Inf
    int exponents[kUnitRows];              // float64: the row is multiplied by 2^-exponent first
};

template <class Stored>
struct UnitRowsBody {
    static constexpr bool kIsFloat64 = sizeof(Wide<Stored>) == sizeof(double);
    static constexpr unsigned kAtOnce = kIsFloat64 ? 1 : 8;   // ldexp is a function, and elements at hand would be spilled around its calls

    const Stored* x;
    Stored* out;       // may be x
    std::size_t rows;
    std::size_t columns;
    Report* report;    // may be null

    template <class Team>
    HUSHVEC_INLINE void run(std::size_t block, UnitRowsMemory& memory, const Team& team) const {
        const std::size_t first_row = block * kUnitRows;
        if constexpr (kIsFloat64) {
            each_element_thread(first_row, team, [&](std::size_t row, unsigned local, unsigned t) HUSHVEC_INLINE_LAMBDA {
                memory.of_threads[local][t] = largest_magnitude(x + row * columns, t);
            });
            each_row(first_row, team, [&](std::size_t, unsigned local) HUSHVEC_INLINE_LAMBDA {
                memory.exponents[local] = exponent_of(memory.of_threads[local]);
            });
        }
        each_element_thread(first_row, team, [&](std::size_t row, unsigned local, unsigned t) HUSHVEC_INLINE_LAMBDA {
            const Stored* const elements = x + row * columns;
            const int exponent = kIsFloat64 ? memory.exponents[local] : 0;
            memory.of_threads[local][t] =
                accumulator<kAtOnce>(columns, t, [=](std::size_t j) HUSHVEC_INLINE_LAMBDA { return reduced(elements[j], exponent); });
        });
        each_row(first_row, team, [&](std::size_t row, unsigned local) HUSHVEC_INLINE_LAMBDA {
            memory.norms[local] = norm_from(tree_sum(memory.of_threads[local]), row);
        });
        each_element_thread(first_row, team, [&](std::size_t row, unsigned local, unsigned t) HUSHVEC_INLINE_LAMBDA {
            write(row, memory.norms[local], kIsFloat64 ? memory.exponents[local] : 0, t);
        });
    }

private:
    // Calls work(row, its number in the block, thread of its warp).
    template <class Team, class Work>
    HUSHVEC_INLINE void each_element_thread(std::size_t first_row, const Team& team, Work work) const {
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            const unsigned local = thread / kWarp;
            if (first_row + local < rows) work(first_row + local, local, thread % kWarp);
        });
    }

    // Calls work(row, its number in the block) in one thread for each row.
    template <class Team, class Work>
    HUSHVEC_INLINE void each_row(std::size_t first_row, const Team& team, Work work) const {
        team.each([&](unsigned thread) HUSHVEC_INLINE_LAMBDA {
            if (thread < kUnitRows && first_row + thread < rows) work(first_row + thread, thread);
        });
    }

    static HUSHVEC_INLINE Stored reduced(Stored element, int exponent) {
        if constexpr (kIsFloat64) return std::ldexp(element, -exponent);
        else return element;
    }

    // NaN counts as 0: the sum of squares finds it.
    HUSHVEC_INLINE double largest_magnitude(const Stored* elements, unsigned t) const {
        double largest = 0;
        for (std::size_t j = t; j < columns; j += kWarp) {
            const double magnitude = std::fabs(double{widened(elements[j])});
            largest = magnitude > largest ? magnitude : largest;
        }
        return largest;
    }

    // The largest element of the row times 2^-exponent is in [1/2, 1). frexp says nothing of Inf, which any exponent leaves Inf.
    static HUSHVEC_INLINE int exponent_of(const double* magnitudes) {
        double largest = 0;
        for (unsigned t = 0; t < kWarp; ++t) largest = magnitudes[t] > largest ? magnitudes[t] : largest;
        int exponent = 0;
        if (std::isfinite(largest)) std::frexp(largest, &exponent);
        return exponent;
    }

    // Sums of finite rows are finite: squares of float32 numbers do not overflow there, and float64 rows are scaled.
    HUSHVEC_INLINE double norm_from(double sum_of_squares, std::size_t row) const {
        if (std::isfinite(sum_of_squares)) return std::sqrt(sum_of_squares);
        if (report != nullptr) atomic_minimum(&report->first_bad_row, row);
        return std::numeric_limits<double>::quiet_NaN();
    }

    HUSHVEC_INLINE void write(std::size_t row, double norm, int exponent, unsigned t) const {
        const Stored* const from = x + row * columns;
        Stored* const to = out + row * columns;
        if (std::isnan(norm)) {
            for (std::size_t j = t; j < columns; j += kWarp) to[j] = Stored{};
            return;
        }
        const double divisor = norm == 0 ? 1.0 : norm;
        HUSHVEC_UNROLL_BY(4)
        for (std::size_t j = t; j < columns; j += kWarp) {
            to[j] = narrowed<Stored>(static_cast<Wide<Stored>>(double{widened(reduced(from[j], exponent))} / divisor));
        }
    }
};

}  // namespace hushvec::cuda
