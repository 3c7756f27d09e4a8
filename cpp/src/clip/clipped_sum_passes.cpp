#include "clip/clipped_sum_passes.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "clip/clipped_sum_kernels.hpp"
#include "clip/part_rows.hpp"
#include "clip/row_scale_arithmetic.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/clipped_sum.hpp"
#include "parallel/threads.hpp"

namespace hushvec {
namespace {

// ---- norms ----

double squares_of(const MatrixView& part, std::size_t row, std::size_t first, std::size_t count, PartReader<float>& floats,
                  PartReader<double>& doubles, int exponent) {
    if (part.dtype == DType::float64) {
        const double* elements = doubles.run(part, row, first, count);
        if (exponent == 0) return active_kernels().sum_of_squares_f64(elements, count);
        std::vector<double> reduced(elements, elements + count);
        for (double& element : reduced) element = std::ldexp(element, -exponent);
        return active_kernels().sum_of_squares_f64(reduced.data(), count);
    }
    const double squares = active_kernels().sum_of_squares(floats.run(part, row, first, count), count);
    return std::ldexp(squares, -2 * exponent);
}

// The sums of stretches, added in the order of docs/format.md section 4.
double join_stretches(const double* partial, std::size_t stretches) {
    double sum[kNormAccumulators] = {};
    for (std::size_t k = 0; k < stretches; ++k) sum[k % kNormAccumulators] += partial[k];
    for (std::size_t half = kNormAccumulators / 2; half > 0; half /= 2) {
        for (std::size_t k = 0; k < half; ++k) sum[k] += sum[k + half];
    }
    return sum[0];
}

// partial holds the row's runs of all parts one after the other.
double join_parts(const std::vector<Columns>& runs, const double* partial) {
    double sum = 0;
    for (std::size_t begin = 0; begin < runs.size();) {
        std::size_t end = begin;
        while (end < runs.size() && runs[end].part == runs[begin].part) ++end;
        sum += join_stretches(partial + begin, end - begin);
        begin = end;
    }
    return sum;
}

std::vector<double> sums_of_squares(const std::vector<MatrixView>& parts, const std::vector<std::size_t>& rows) {
    const std::vector<Columns> runs = cut_columns(parts, kStretch);
    std::vector<double> partial(rows.size() * runs.size());
    parallel_for(partial.size(), kStretch, [&](std::size_t begin, std::size_t end) {
        PartReader<float> floats(1);
        PartReader<double> doubles(1);
        for (std::size_t item = begin; item < end; ++item) {
            const Columns& run = runs[item % runs.size()];
            partial[item] = squares_of(parts[run.part], rows[item / runs.size()], run.first, run.count, floats, doubles, 0);
        }
    });
    std::vector<double> sums(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) sums[i] = join_parts(runs, partial.data() + i * runs.size());
    return sums;
}

// The largest magnitude in a row, or an exception that names the first number that is not finite.
double largest_magnitude(const std::vector<MatrixView>& parts, std::size_t row) {
    double largest = 0;
    PartReader<float> floats(1);
    PartReader<double> doubles(1);
    for (const Columns& run : cut_columns(parts, kStretch)) {
        const MatrixView& part = parts[run.part];
        const bool wide = part.dtype == DType::float64;
        const double* wide_elements = wide ? doubles.run(part, row, run.first, run.count) : nullptr;
        const float* elements = wide ? nullptr : floats.run(part, row, run.first, run.count);
        for (std::size_t j = 0; j < run.count; ++j) {
            const double element = wide ? wide_elements[j] : double{elements[j]};
            if (!std::isfinite(element)) throw NonFinitePart(run.part, row, element);
            largest = std::max(largest, std::fabs(element));
        }
    }
    return largest;
}

// Where the sum of squares overflows float64: only float64 elements can make it.
double scale_of_large_row(const std::vector<MatrixView>& parts, std::size_t row, double clip_norm) {
    const int exponent = reduction_exponent(largest_magnitude(parts, row));
    const std::vector<Columns> runs = cut_columns(parts, kStretch);
    std::vector<double> partial;
    PartReader<float> floats(1);
    PartReader<double> doubles(1);
    for (const Columns& run : runs) partial.push_back(squares_of(parts[run.part], row, run.first, run.count, floats, doubles, exponent));
    return reduced_float64_scale(join_parts(runs, partial.data()), exponent, clip_norm);
}

// ---- sums ----

constexpr std::size_t kFewestColumns = 512;   // a run of its own for a thread
constexpr std::size_t kSumColumns = 2048;     // 16 KiB of float64: stays in the first-level cache
constexpr std::size_t kGuessedRun = 8192;     // part of the format: squares of a run are added in float32

std::size_t width_of_a_run(const std::vector<MatrixView>& parts) {
    std::size_t columns = 0;
    for (const MatrixView& part : parts) columns += part.columns;
    const std::size_t share = columns / num_threads() + 1;
    return std::clamp((share + 63) / 64 * 64, kFewestColumns, kSumColumns);
}

void add_float64_row(const double* elements, std::size_t count, double q, double* sums) {
    for (std::size_t j = 0; j < count; ++j) sums[j] += static_cast<double>(static_cast<std::int32_t>(elements[j] * q));
}

// Rows chunk .. chunk + count - 1 of `rows` as pointers to their elements in a run of columns, and their q.
struct RowPointers {
    const float* rows[kRowsInOneSum];
    float q[kRowsInOneSum];

    void point(const MatrixView& part, const Columns& run, const ScaledRows& from, std::size_t chunk, std::size_t count, double unit,
               PartReader<float>& reader) {
        for (std::size_t i = 0; i < count; ++i) {
            rows[i] = reader.run(part, from.rows[chunk + i], run.first, run.count, i);
            q[i] = in_grid_units(static_cast<double>(round_toward_zero(from.scales[chunk + i])), unit, float{});
        }
    }
};

void put_clipped_run(const MatrixView& part, const Columns& run, const ScaledRows& rows, double* sums, double unit, PartReader<float>& floats,
                     PartReader<double>& doubles) {
    RowPointers pointers;
    for (std::size_t chunk = 0; chunk < rows.size(); chunk += kRowsInOneSum) {
        const std::size_t count = std::min(kRowsInOneSum, rows.size() - chunk);
        if (part.dtype == DType::float64) {
            for (std::size_t i = chunk; i < chunk + count; ++i) {
                const double q = in_grid_units(rows.scales[i], unit, double{});
                add_float64_row(doubles.run(part, rows.rows[i], run.first, run.count), run.count, q, sums);
            }
        } else {
            pointers.point(part, run, rows, chunk, count, unit, floats);
            active_kernels().add_rows({pointers.rows, pointers.q, count, run.count, sums});
        }
    }
}

}  // namespace

std::vector<double> exact_scales(const std::vector<MatrixView>& parts, const std::vector<std::size_t>& rows, double clip_norm) {
    const bool wide = std::any_of(parts.begin(), parts.end(), [](const MatrixView& part) { return part.dtype == DType::float64; });
    std::vector<double> scales = sums_of_squares(parts, rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (!std::isfinite(scales[i])) {
            scales[i] = scale_of_large_row(parts, rows[i], clip_norm);
        } else {
            scales[i] = wide ? float64_scale(scales[i], clip_norm) : float32_scale(scales[i], clip_norm);
        }
    }
    return scales;
}

void put_clipped_rows(const std::vector<MatrixView>& parts, const ScaledRows& rows, const Sums& sums, bool sums_hold_rows) {
    const std::size_t width = width_of_a_run(parts);
    const std::vector<Columns> runs = cut_columns(parts, width);
    parallel_for(runs.size(), width * rows.size(), [&](std::size_t begin, std::size_t end) {
        PartReader<float> floats(kRowsInOneSum);
        PartReader<double> doubles(1);
        for (std::size_t item = begin; item < end; ++item) {
            const Columns& run = runs[item];
            double* target = sums.of_part[run.part] + run.first;
            if (!sums_hold_rows) std::fill_n(target, run.count, 0.0);
            put_clipped_run(parts[run.part], run, rows, target, sums.unit, floats, doubles);
        }
    });
}

std::vector<double> put_guessed_rows(const std::vector<MatrixView>& parts, const ScaledRows& rows, const Sums& sums, Put put) {
    const std::vector<Columns> runs = cut_columns(parts, kGuessedRun);
    std::vector<double> partial(runs.size() * rows.size());
    parallel_for(runs.size(), kGuessedRun * rows.size(), [&](std::size_t begin, std::size_t end) {
        PartReader<float> floats(kRowsInOneSum);
        RowPointers pointers;
        alignas(64) std::uint32_t integers[kGuessedRun];
        for (std::size_t item = begin; item < end; ++item) {
            const Columns& run = runs[item];
            double* target = sums.of_part[run.part] + run.first;
            const std::size_t padded = (run.count + kSumPadding - 1) / kSumPadding * kSumPadding;
            for (std::size_t chunk = 0; chunk < rows.size(); chunk += kRowsInOneSum) {
                const std::size_t count = std::min(kRowsInOneSum, rows.size() - chunk);
                pointers.point(parts[run.part], run, rows, chunk, count, sums.unit, floats);
                std::fill_n(integers, padded, 0u);
                active_kernels().add_rows_and_squares(
                    {pointers.rows, pointers.q, count, run.count, integers, partial.data() + item * rows.size() + chunk});
                active_kernels().put_integers(integers, padded, put == Put::store && chunk > 0 ? Put::add : put, target);
            }
        }
    });
    std::vector<double> squares(rows.size());
    for (std::size_t item = 0; item < runs.size(); ++item) {
        for (std::size_t i = 0; i < rows.size(); ++i) squares[i] += partial[item * rows.size() + i];
    }
    return squares;
}

}  // namespace hushvec
