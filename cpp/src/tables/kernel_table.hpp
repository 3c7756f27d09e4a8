// Fills the table of operations for one lane type.
#pragma once

#include "clip/clipped_sum_kernels.hpp"
#include "clip/row_kernels.hpp"
#include "collect/bit_rows.hpp"
#include "discrete/place_words.hpp"
#include "discrete/whole_rows.hpp"
#include "dispatch/kernels.hpp"
#include "noise/combination_kernels.hpp"
#include "noise/convert_kernels.hpp"
#include "noise/error_bounds.hpp"
#include "noise/float64_kernels.hpp"
#include "noise/group_kernels.hpp"
#include "noise/half_word_kernels.hpp"
#include "noise/word_kernels.hpp"
#include "privunit/row_round.hpp"
#include "privunit/unit_normals.hpp"
#include "products/product_kernels.hpp"
#include "rng/row_keys.hpp"

namespace hushvec {

// One function of two: the cipher of a call's stream decides.
template <auto FromAes, auto FromChaCha>
struct ByCipher;
template <class... Arguments, void (*FromAes)(const KeyStream&, Arguments...), void (*FromChaCha)(const KeyStream&, Arguments...)>
struct ByCipher<FromAes, FromChaCha> {
    static void run(const KeyStream& stream, Arguments... arguments) {
        (stream.cipher == Cipher::aes256 ? FromAes : FromChaCha)(stream, arguments...);
    }
};
template <auto FromAes, auto FromChaCha>
constexpr auto by_cipher = &ByCipher<FromAes, FromChaCha>::run;

template <class V>
constexpr Kernels make_kernels(const char* name, ErrorBound gaussian_bound, ErrorBound laplace_bound) {
    return {
        .name = name,
        .gaussian_bound = gaussian_bound,
        .laplace_bound = laplace_bound,
        .keystream = by_cipher<keystream<V, AesWords>, keystream<V, ChaChaLanes<V>>>,
        .fill_gaussian = by_cipher<fill_gaussian<V, AesWords>, fill_gaussian<V, ChaChaLanes<V>>>,
        .fill_laplace = by_cipher<fill_laplace<V, AesWords>, fill_laplace<V, ChaChaLanes<V>>>,
        .fill_gaussian_f64 = by_cipher<fill_gaussian_f64<V, AesWords>, fill_gaussian_f64<V, ChaChaLanes<V>>>,
        .fill_laplace_f64 = by_cipher<fill_laplace_f64<V, AesWords>, fill_laplace_f64<V, ChaChaLanes<V>>>,
        .add_gaussian = by_cipher<add_gaussian_run<V, AesWords>, add_gaussian_run<V, ChaChaLanes<V>>>,
        .add_laplace = by_cipher<add_laplace_run<V, AesWords>, add_laplace_run<V, ChaChaLanes<V>>>,
        .exact_gaussian = by_cipher<exact_gaussian_run<V, AesWords, float>, exact_gaussian_run<V, ChaChaLanes<V>, float>>,
        .exact_gaussian_f64 = by_cipher<exact_gaussian_run<V, AesWords, double>, exact_gaussian_run<V, ChaChaLanes<V>, double>>,
        .exact_laplace = by_cipher<exact_laplace_run<V, AesWords, float>, exact_laplace_run<V, ChaChaLanes<V>, float>>,
        .exact_laplace_f64 = by_cipher<exact_laplace_run<V, AesWords, double>, exact_laplace_run<V, ChaChaLanes<V>, double>>,
        .half_gaussian = by_cipher<half_gaussian_run<V, AesWords, float>, half_gaussian_run<V, ChaChaLanes<V>, float>>,
        .half_gaussian_f64 = by_cipher<half_gaussian_run<V, AesWords, double>, half_gaussian_run<V, ChaChaLanes<V>, double>>,
        .half_laplace = by_cipher<half_laplace_run<V, AesWords, float>, half_laplace_run<V, ChaChaLanes<V>, float>>,
        .half_laplace_f64 = by_cipher<half_laplace_run<V, AesWords, double>, half_laplace_run<V, ChaChaLanes<V>, double>>,
        .settle_gaussian = by_cipher<settle_gaussian<V, AesWords, float>, settle_gaussian<V, ChaChaLanes<V>, float>>,
        .settle_gaussian_f64 = by_cipher<settle_gaussian<V, AesWords, double>, settle_gaussian<V, ChaChaLanes<V>, double>>,
        .settle_laplace = by_cipher<settle_laplace<V, AesWords, float>, settle_laplace<V, ChaChaLanes<V>, float>>,
        .settle_laplace_f64 = by_cipher<settle_laplace<V, AesWords, double>, settle_laplace<V, ChaChaLanes<V>, double>>,
        .add_normals = by_cipher<add_normals<V, AesWords>, add_normals<V, ChaChaLanes<V>>>,
        .round_combination = round_combination<V>,
        .sum_of_squares = sum_of_squares<V, float>,
        .sum_of_squares_f64 = sum_of_squares<V, double>,
        .half_of_squares = half_of_squares<V, float>,
        .half_of_squares_f64 = half_of_squares<V, double>,
        .copy_and_square = copy_and_square<V, float>,
        .copy_and_square_f64 = copy_and_square<V, double>,
        .all_finite = all_finite<V, float>,
        .all_finite_f64 = all_finite<V, double>,
        .scale_row = scale_row<V>,
        .sums_of_squares = sums_of_squares<V>,
        .add_rows = add_rows<V>,
        .put_integers = put_integers<V>,
        .put_integers_f64 = put_integers<V>,
        .unit_normals = by_cipher<unit_normals<V, AesWords>, unit_normals<V, ChaChaLanes<V>>>,
        .privunit_round = privunit_round<V>,
        .direction_products = direction_products<V>,
        .round_row = round_row<V>,
        .inner_products = inner_products<V, float>,
        .inner_products_f64 = inner_products<V, double>,
        .row_keys = row_keys<V>,
        .place_words = place_words<V>,
        .whole_sizes = whole_sizes<V>,
        .scale_whole = scale_whole<V>,
        .add_whole = add_whole<V, std::int64_t>,
        .add_whole_to_int32 = add_whole<V, std::int32_t>,
        .add_bit_rows = add_bit_rows<V>,
        .widen_float16 = widen_float16<V>,
        .narrow_float16 = narrow_float16<V>,
        .narrow_int8 = narrow_int8<V>,
    };
}

template <class V>
constexpr WordKernels make_word_kernels() {
    return {
        .normals = normals_of_words<V>,
        .minus_two_logs = minus_two_logs_of_words<V>,
        .normals_f64 = normals_f64_of_words<V>,
        .laplaces_f64 = laplaces_f64_of_words<V>,
        .exact_gaussian_words = exact_gaussian_of_words<V>,
        .exact_laplace_words = exact_laplace_of_words<V>,
        .half_normals = half_normals_of_words<V>,
        .half_minus_two_logs = half_minus_two_logs_of_words<V>,
        .half_gaussian_words = half_gaussian_of_words<V>,
        .half_laplace_words = half_laplace_of_words<V>,
    };
}

template <class V>
constexpr Backend make_backend(const char* name, ErrorBound gaussian_bound, ErrorBound laplace_bound) {
    return {make_kernels<V>(name, gaussian_bound, laplace_bound), make_word_kernels<V>()};
}

}  // namespace hushvec
