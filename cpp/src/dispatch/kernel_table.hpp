// Fills the table of operations for one lane type.
#pragma once

#include "clip/clipped_sum_kernels.hpp"
#include "clip/row_kernels.hpp"
#include "collect/bit_rows.hpp"
#include "dispatch/kernels.hpp"
#include "noise/convert_kernels.hpp"
#include "noise/float64_kernels.hpp"
#include "noise/group_kernels.hpp"
#include "noise/word_kernels.hpp"
#include "privunit/row_round.hpp"
#include "privunit/unit_normals.hpp"
#include "products/product_kernels.hpp"
#include "rng/row_keys.hpp"

namespace hushvec {

template <class V>
constexpr Kernels make_kernels(const char* name, ErrorBound gaussian_bound, ErrorBound laplace_bound) {
    return {
        .name = name,
        .gaussian_bound = gaussian_bound,
        .laplace_bound = laplace_bound,
        .keystream = keystream<V>,
        .fill_gaussian = fill_gaussian<V>,
        .fill_laplace = fill_laplace<V>,
        .fill_gaussian_f64 = fill_gaussian_f64<V>,
        .fill_laplace_f64 = fill_laplace_f64<V>,
        .add_gaussian = add_gaussian_run<V>,
        .add_laplace = add_laplace_run<V>,
        .exact_gaussian = exact_gaussian_run<V, float>,
        .exact_gaussian_f64 = exact_gaussian_run<V, double>,
        .exact_laplace = exact_laplace_run<V, float>,
        .exact_laplace_f64 = exact_laplace_run<V, double>,
        .sum_of_squares = sum_of_squares<V, float>,
        .sum_of_squares_f64 = sum_of_squares<V, double>,
        .copy_and_square = copy_and_square<V, float>,
        .copy_and_square_f64 = copy_and_square<V, double>,
        .all_finite = all_finite<V, float>,
        .all_finite_f64 = all_finite<V, double>,
        .scale_row = scale_row<V>,
        .sums_of_squares = sums_of_squares<V>,
        .add_rows = add_rows<V>,
        .put_integers = put_integers<V>,
        .put_integers_f64 = put_integers<V>,
        .unit_normals = unit_normals<V>,
        .privunit_round = privunit_round<V>,
        .direction_products = direction_products<V>,
        .round_row = round_row<V>,
        .inner_products = inner_products<V, float>,
        .inner_products_f64 = inner_products<V, double>,
        .row_keys = row_keys<V>,
        .add_bit_rows = add_bit_rows<V>,
        .widen_float16 = widen_float16<V>,
        .narrow_float16 = narrow_float16<V>,
        .normals = normals_of_words<V>,
        .minus_two_logs = minus_two_logs_of_words<V>,
        .normals_f64 = normals_f64_of_words<V>,
        .laplaces_f64 = laplaces_f64_of_words<V>,
        .exact_gaussian_words = exact_gaussian_of_words<V>,
        .exact_laplace_words = exact_laplace_of_words<V>,
    };
}

}  // namespace hushvec
