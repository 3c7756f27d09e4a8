#include "clip/row_norms.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>

#include "clip/row_kernels.hpp"
#include "clip/row_scale_arithmetic.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/clipped_sum.hpp"
#include "parallel/threads.hpp"

namespace hushvec {
namespace {

// The sums of stretches, added in the order of docs/format.md section 4. Of one that is itself: 31 additions of 0 change no bit.
double join_stretches(const double* partial, std::size_t stretches) {
    if (stretches == 1) return partial[0];
    double sum[kNormAccumulators] = {};
    for (std::size_t k = 0; k < stretches; ++k) sum[k % kNormAccumulators] += partial[k];
    return joined_accumulators(sum);
}

std::size_t end_of_part(const std::vector<Columns>& runs, std::size_t begin) {
    std::size_t end = begin;
    while (end < runs.size() && runs[end].part == runs[begin].part) ++end;
    return end;
}

// partial holds the row's runs of all parts one after the other.
double join_parts(const std::vector<Columns>& runs, const double* partial) {
    double sum = 0;
    for (std::size_t begin = 0; begin < runs.size();) {
        const std::size_t end = end_of_part(runs, begin);
        sum += join_stretches(partial + begin, end - begin);
        begin = end;
    }
    return sum;
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
    std::vector<double> partial(runs.size());
    RunSquares squares;
    PartReader<double> doubles(1);
    for (std::size_t item = 0; item < runs.size(); ++item) {
        const Columns& run = runs[item];
        const MatrixView& part = parts[run.part];
        if (part.dtype == DType::float64) {
            const double* elements = doubles.run(part, row, run.first, run.count);
            std::vector<double> reduced(elements, elements + run.count);
            for (double& element : reduced) element = std::ldexp(element, -exponent);
            partial[item] = active_kernels().sum_of_squares_f64(reduced.data(), run.count);
        } else {
            squares.find(part, run, &row, 1, &partial[item], 1);
            partial[item] = std::ldexp(partial[item], -2 * exponent);
        }
    }
    return reduced_float64_scale(join_parts(runs, partial.data()), exponent, clip_norm);
}

// The scales of some rows, of which partial has the squares: row after row, those of all runs.
void scale_rows(const std::vector<MatrixView>& parts, const std::vector<std::size_t>& rows, const std::vector<Columns>& runs, const double* partial,
                double clip_norm, std::vector<double>& scales) {
    const bool wide = has_float64(parts);
    scales.resize(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i, partial += runs.size()) {
        const double squares = join_parts(runs, partial);
        if (!std::isfinite(squares)) {
            scales[i] = scale_of_large_row(parts, rows[i], clip_norm);
        } else {
            scales[i] = wide ? float64_scale(squares, clip_norm) : float32_scale(squares, clip_norm);
        }
    }
}

}  // namespace

void RunSquares::find(const MatrixView& part, const Columns& run, const std::size_t* rows, std::size_t count, double* squares, std::size_t step,
                      std::size_t bytes_ahead) {
    if (part.dtype == DType::float64) {
        for (std::size_t i = 0; i < count; ++i) {
            squares[i * step] = active_kernels().sum_of_squares_f64(doubles_.run(part, rows[i], run.first, run.count), run.count);
        }
        return;
    }
    for (std::size_t first = 0; first < count; first += kRowsAtOnce) {
        const std::size_t here = std::min(kRowsAtOnce, count - first);
        const float* elements[kRowsAtOnce];
        double found[kRowsAtOnce];
        for (std::size_t i = 0; i < here; ++i) elements[i] = floats_.run(part, rows[first + i], run.first, run.count, i);
        active_kernels().sums_of_squares(elements, here, run.count, found, bytes_ahead);
        for (std::size_t i = 0; i < here; ++i) squares[(first + i) * step] = found[i];
    }
}

void RowScales::find(const std::vector<std::size_t>& rows, std::vector<double>& scales, bool fetch_next) {
    partial_.resize(rows.size() * runs_.size());
    for (std::size_t item = 0; item < runs_.size(); ++item) {
        const Columns& run = runs_[item];
        const MatrixView& part = parts_[run.part];
        squares_.find(part, run, rows.data(), rows.size(), partial_.data() + item, runs_.size(), fetch_next ? bytes_to_next(part, rows.size()) : 0);
    }
    scale_rows(parts_, rows, runs_, partial_.data(), clip_norm_, scales);
}

namespace {

// Row after row, those of all runs.
std::vector<double> run_squares(const std::vector<MatrixView>& parts, const std::vector<std::size_t>& rows, const std::vector<Columns>& runs) {
    const std::size_t groups = (rows.size() + RunSquares::kRowsAtOnce - 1) / RunSquares::kRowsAtOnce;
    std::vector<double> partial(rows.size() * runs.size());
    parallel_ranges(groups * runs.size(), kStretch * RunSquares::kRowsAtOnce / kElementsOfASample, [&] {
        return [&, squares = RunSquares()](std::size_t begin, std::size_t end) mutable {
            for (std::size_t item = begin; item < end; ++item) {
                const Columns& run = runs[item % runs.size()];
                const std::size_t first = item / runs.size() * RunSquares::kRowsAtOnce;
                const std::size_t count = std::min(RunSquares::kRowsAtOnce, rows.size() - first);
                squares.find(parts[run.part], run, rows.data() + first, count, partial.data() + first * runs.size() + item % runs.size(), runs.size());
            }
        };
    });
    return partial;
}

}  // namespace

std::vector<double> exact_scales(const std::vector<MatrixView>& parts, const std::vector<std::size_t>& rows, double clip_norm) {
    const std::vector<Columns> runs = cut_columns(parts, kStretch);
    std::vector<double> scales;
    scale_rows(parts, rows, runs, run_squares(parts, rows, runs).data(), clip_norm, scales);
    return scales;
}

std::vector<double> part_squares(const std::vector<MatrixView>& parts) {
    std::vector<std::size_t> rows(parts[0].rows);
    std::iota(rows.begin(), rows.end(), std::size_t{0});
    const std::vector<Columns> runs = cut_columns(parts, kStretch);
    const std::vector<double> partial = run_squares(parts, rows, runs);
    std::vector<double> squares(parts.size() * rows.size());
    for (std::size_t begin = 0; begin < runs.size();) {
        const std::size_t part = runs[begin].part, end = end_of_part(runs, begin);
        for (const std::size_t row : rows) {
            squares[part * rows.size() + row] = join_stretches(partial.data() + row * runs.size() + begin, end - begin);
        }
        begin = end;
    }
    for (const std::size_t row : rows) {
        for (std::size_t part = 0; part < parts.size(); ++part) {
            if (!std::isfinite(squares[part * rows.size() + row])) largest_magnitude(parts, row);   // throws, unless a finite row overflows
        }
    }
    return squares;
}

std::vector<double> factored_scales(const std::vector<double>& squares, const std::vector<double>& factors, std::size_t rows, double clip_norm) {
    std::vector<double> scales(factors.size());
    for (std::size_t row = 0; row < rows; ++row) {
        double sum = 0;
        for (std::size_t item = row; item < factors.size(); item += rows) {
            if (!(factors[item] >= 0)) throw std::invalid_argument("factors must be >= 0, got " + std::to_string(factors[item]));
            if (factors[item] == 0) continue;   // also of an infinite norm
            const double norm = factors[item] * std::sqrt(squares[item]);
            sum += norm * norm;
        }
        if (!std::isfinite(sum)) throw std::invalid_argument("factors must make a finite norm, got another in row " + std::to_string(row));
        const double scale = float64_scale(sum, clip_norm);
        for (std::size_t item = row; item < factors.size(); item += rows) scales[item] = factors[item] * scale;
    }
    return scales;
}

}  // namespace hushvec
