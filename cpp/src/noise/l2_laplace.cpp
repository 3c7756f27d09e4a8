#include "noise/l2_laplace.hpp"

#include <algorithm>
#include <cmath>

#include "array/staging.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/noise.hpp"
#include "noise/float64_noise.hpp"
#include "noise/gamma_variate.hpp"
#include "parallel/threads.hpp"

namespace hushvec {
namespace {

constexpr std::size_t kRowsAtOnce = 8192;         // samples: rows are worked off in runs of about this size

// Samples [first, first + count) of the call's standard normals.
void normals(const KeyStream& stream, bool wide, std::size_t first, std::size_t count, std::vector<double>& out) {
    const std::size_t first_group = first / kGroupSamples;
    const std::size_t groups = (first + count + kGroupSamples - 1) / kGroupSamples - first_group;
    std::vector<double> buffer(groups * kGroupSamples);
    if (wide) {
        float64_noise(stream, Law::gaussian, 1.0, first_group, groups, buffer.data());
    } else {
        std::vector<float> narrow(groups * kGroupSamples);
        active_kernels().fill_gaussian(stream, 1.0f, first_group, groups, narrow.data());
        std::copy(narrow.begin(), narrow.end(), buffer.begin());
    }
    const auto begin = buffer.begin() + static_cast<std::ptrdiff_t>(first - first_group * kGroupSamples);
    out.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
}

template <class Value>
void scatter_as(const std::vector<double>& noise, const MatrixView& out, std::size_t first_sample) {
    const std::vector<Value> values(noise.begin(), noise.end());
    scatter(values.data(), out, first_sample, values.size(), Rounding::nearest);
}

}  // namespace

void l2_laplace_rows(const KeyStream& stream, double scale, std::size_t first, std::size_t rows, std::size_t columns, bool wide,
                     double* out) {
    const auto block_at = [&](std::uint64_t index) { return stream_block(stream, domain::kRows, index); };
    std::vector<double> direction;
    normals(stream, wide, first * columns, rows * columns, direction);
    for (std::size_t row = 0; row < rows; ++row) {
        const double* g = direction.data() + row * columns;
        const double norm = std::sqrt(active_kernels().sum_of_squares_f64(g, columns));
        const double radius = scale * gamma_variate(first + row, static_cast<double>(columns), block_at);
        const double factor = norm > 0 ? radius / norm : 0.0;
        for (std::size_t j = 0; j < columns; ++j) out[row * columns + j] = factor * g[j];
    }
}

void fill_l2_laplace(const KeyStream& stream, double scale, const MatrixView& out) {
    if (out.size() == 0) return;
    const bool wide = out.dtype == DType::float64;
    const std::size_t at_once = std::max<std::size_t>(1, kRowsAtOnce / out.columns);
    parallel_for(out.rows, out.columns, [&](std::size_t begin, std::size_t end) {
        std::vector<double> noise;
        for (std::size_t row = begin; row < end; row += at_once) {
            const std::size_t rows = std::min(at_once, end - row);
            noise.resize(rows * out.columns);
            l2_laplace_rows(stream, scale, row, rows, out.columns, wide, noise.data());
            if (wide) {
                scatter_as<double>(noise, out, row * out.columns);
            } else {
                scatter_as<float>(noise, out, row * out.columns);
            }
        }
    });
}

}  // namespace hushvec
