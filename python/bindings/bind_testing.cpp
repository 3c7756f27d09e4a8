// Hooks for the tests: single blocks, raw key streams, and the transforms and roundings on words the test chooses.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "array_argument.hpp"
#include "bindings.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/keystream.hpp"
#include "hushvec/wiped_stream.hpp"
#include "noise/error_bounds.hpp"
#include "noise/ladder.hpp"
#include "privunit/privunit.hpp"
#include "rng/blake2b.hpp"

namespace hushvec::python {

namespace py = pybind11;

namespace {

template <class T>
using Array = py::array_t<T, py::array::c_style | py::array::forcecast>;
using Words = Array<std::uint32_t>;

constexpr std::size_t kMultiple = 16;   // word kernels take whole vectors of the widest set

// 14 rounds: AES-256.
WipedStream stream_of(const py::bytes& key, std::uint64_t nonce, int rounds) {
    const std::string bytes = key;
    if (bytes.size() != 32) throw py::value_error("key must have 32 bytes, got " + std::to_string(bytes.size()));
    KeyStream stream;
    stream.cipher = rounds == rounds_of(Cipher::aes256) ? Cipher::aes256 : static_cast<Cipher>(rounds);
    for (std::size_t i = 0; i < 32; ++i) {
        stream.key[i / 4] |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * (i % 4));
    }
    stream.nonce = nonce;
    return WipedStream(stream);
}

template <class T>
std::vector<T> padded(const Array<T>& values, T filler) {
    const auto count = static_cast<std::size_t>(values.size());
    std::vector<T> result((count + kMultiple - 1) / kMultiple * kMultiple, filler);
    std::copy_n(values.data(), count, result.begin());
    return result;
}

template <class T>
py::array_t<T> first_of(const std::vector<T>& values, py::ssize_t count) {
    return py::array_t<T>(count, values.data());
}

ErrorBound scaled(ErrorBound bound, float factor) {
    return {bound.constant * factor, bound.per_scale * factor, bound.per_radius * factor};
}

HalfWordBound scaled(HalfWordBound bound, float factor) {
    bound.constant *= factor;
    bound.per_radius *= factor;
    for (float& width : bound.per_scale) width *= factor;
    return bound;
}

Words block(const py::bytes& key, std::uint64_t counter, std::uint64_t nonce, int rounds) {
    const Block words = chacha_block(stream_of(key, nonce, rounds), counter);
    return Words(kBlockWords, words.data());
}

py::bytes row_keys(const std::string& backend, const py::bytes& key, const py::bytes& places, const py::bytes& rows, std::size_t row_bytes) {
    const std::string secret = key, all_places = places, all_rows = rows;
    const std::size_t count = all_places.size() / kRowPlaceBytes;
    if (secret.size() != kBlake2bKeyBytes) throw py::value_error("key must have 32 bytes, got " + std::to_string(secret.size()));
    if (row_bytes == 0 || all_rows.size() != count * row_bytes) throw py::value_error("rows must have row_bytes bytes a place");
    const Blake2bKey state(std::span<const std::uint8_t, kBlake2bKeyBytes>(reinterpret_cast<const std::uint8_t*>(secret.data()), kBlake2bKeyBytes));
    std::vector<std::uint32_t> keys(8 * count);
    kernels_by_name(backend).row_keys({state.state, reinterpret_cast<const std::uint8_t*>(all_places.data()),
                                       reinterpret_cast<const std::byte*>(all_rows.data()), row_bytes, count,
                                       reinterpret_cast<RowKey*>(keys.data())});
    return {reinterpret_cast<const char*>(keys.data()), keys.size() * sizeof keys[0]};
}

Words keystream(const std::string& backend, const py::bytes& key, std::uint64_t nonce, int rounds, std::uint64_t domain_id,
                std::uint64_t first_group, std::size_t groups) {
    Words words(static_cast<py::ssize_t>(groups * kGroupSamples));
    kernels_by_name(backend).keystream(stream_of(key, nonce, rounds), domain_id, first_group, groups, words.mutable_data());
    return words;
}

py::tuple normals(const std::string& backend, const Words& radius_words, const Words& angle_words) {
    const auto a = padded(radius_words, std::uint32_t{1} << 31), b = padded(angle_words, std::uint32_t{0});
    std::vector<float> radius(a.size()), cosine(a.size()), sine(a.size());
    word_kernels_by_name(backend).normals(a.data(), b.data(), a.size(), radius.data(), cosine.data(), sine.data());
    for (std::size_t i = 0; i < a.size(); ++i) radius[i] = b[i] >> 31 != 0 ? -radius[i] : radius[i];
    return py::make_tuple(first_of(radius, radius_words.size()), first_of(cosine, radius_words.size()), first_of(sine, radius_words.size()));
}

py::array_t<float> exponentials(const std::string& backend, const Words& words) {
    const auto w = padded(words, std::uint32_t{1} << 31);
    std::vector<float> values(w.size());
    word_kernels_by_name(backend).minus_two_logs(w.data(), w.size(), values.data());
    for (float& value : values) value *= 0.5f;
    return first_of(values, words.size());
}

py::tuple normals_f64(const std::string& backend, const Words& radius_words, const Words& radius_low, const Words& angle_words,
                      const Words& angle_low) {
    const auto a = padded(radius_words, std::uint32_t{1} << 31), a_low = padded(radius_low, std::uint32_t{0});
    const auto b = padded(angle_words, std::uint32_t{0}), b_low = padded(angle_low, std::uint32_t{0});
    if (a_low.size() != a.size() || b.size() != a.size() || b_low.size() != a.size()) throw py::value_error("all arrays must have one length");
    std::vector<double> cosine(a.size()), sine(a.size());
    word_kernels_by_name(backend).normals_f64(a.data(), a_low.data(), b.data(), b_low.data(), a.size(), cosine.data(), sine.data());
    return py::make_tuple(first_of(cosine, radius_words.size()), first_of(sine, radius_words.size()));
}

py::array_t<double> laplaces_f64(const std::string& backend, const Words& words, const Words& low) {
    const auto w = padded(words, std::uint32_t{1} << 31), w_low = padded(low, std::uint32_t{0});
    if (w_low.size() != w.size()) throw py::value_error("all arrays must have one length");
    std::vector<double> values(w.size());
    word_kernels_by_name(backend).laplaces_f64(w.data(), w_low.data(), w.size(), values.data());
    return first_of(values, words.size());
}

bool is_float32(const py::array& x) { return x.dtype().kind() == 'f' && x.dtype().itemsize() == 4; }

py::tuple exact_gaussian(const std::string& backend, const py::bytes& key, std::uint64_t nonce, int rounds, std::uint64_t first_pair,
                         const Words& radius_words, const Words& angle_words, const py::array& x_cosine, const py::array& x_sine, float s,
                         float bound_factor) {
    const Kernels& kernels = kernels_by_name(backend);
    const auto a = padded(radius_words, std::uint32_t{1} << 31), b = padded(angle_words, std::uint32_t{0});
    const auto xc = padded(Array<double>(x_cosine), 0.0), xs = padded(Array<double>(x_sine), 0.0);
    if (b.size() != a.size() || xc.size() != a.size() || xs.size() != a.size()) throw py::value_error("all arrays must have one length");
    std::vector<std::int32_t> n_cosine(a.size()), n_sine(a.size());
    word_kernels_by_name(backend).exact_gaussian_words(stream_of(key, nonce, rounds), first_pair, a.data(), b.data(), xc.data(), xs.data(), is_float32(x_cosine),
                                 a.size(), s, scaled(kernels.gaussian_bound, bound_factor), n_cosine.data(), n_sine.data());
    return py::make_tuple(first_of(n_cosine, radius_words.size()), first_of(n_sine, radius_words.size()));
}

py::array_t<std::int32_t> exact_laplace(const std::string& backend, const py::bytes& key, std::uint64_t nonce, int rounds,
                                        std::uint64_t first_sample, const Words& words, const py::array& x, float s, float bound_factor) {
    const Kernels& kernels = kernels_by_name(backend);
    const auto w = padded(words, std::uint32_t{1} << 31);
    const auto elements = padded(Array<double>(x), 0.0);
    if (elements.size() != w.size()) throw py::value_error("all arrays must have one length");
    std::vector<std::int32_t> n(w.size());
    word_kernels_by_name(backend).exact_laplace_words(stream_of(key, nonce, rounds), first_sample, w.data(), elements.data(), is_float32(x), w.size(), s,
                                scaled(kernels.laplace_bound, bound_factor), n.data());
    return first_of(n, words.size());
}

py::tuple half_normals(const std::string& backend, const Words& words) {
    const auto w = padded(words, std::uint32_t{1} << 31);
    std::vector<float> radius(w.size()), cosine(w.size()), sine(w.size());
    std::vector<std::uint32_t> exponent(w.size());
    word_kernels_by_name(backend).half_normals(w.data(), w.size(), radius.data(), exponent.data(), cosine.data(), sine.data());
    const py::ssize_t count = words.size();
    return py::make_tuple(first_of(radius, count), first_of(exponent, count), first_of(cosine, count), first_of(sine, count));
}

py::tuple half_exponentials(const std::string& backend, const Words& halves) {
    const auto w = padded(halves, std::uint32_t{1} << 15);
    std::vector<float> values(w.size());
    std::vector<std::uint32_t> exponent(w.size());
    word_kernels_by_name(backend).half_minus_two_logs(w.data(), w.size(), values.data(), exponent.data());
    for (float& value : values) value *= 0.5f;
    return py::make_tuple(first_of(values, halves.size()), first_of(exponent, halves.size()));
}

// What level 0 writes, and how it comes back to Python.
struct HalfRoundingArrays {
    explicit HalfRoundingArrays(std::size_t size)
        : n{std::vector<float>(size), std::vector<float>(size)}, d{std::vector<float>(size), std::vector<float>(size)}, limit(size), open(size) {}
    HalfRoundings out() { return {{n[0].data(), n[1].data()}, {d[0].data(), d[1].data()}, limit.data(), open.data()}; }

    std::vector<float> n[2], d[2], limit;
    std::vector<std::uint8_t> open;
};

py::tuple half_gaussian(const std::string& backend, const Words& words, const py::array& x_cosine, const py::array& x_sine, float s,
                        float bound_factor) {
    const auto w = padded(words, std::uint32_t{1} << 31);
    const auto xc = padded(Array<double>(x_cosine), 0.0), xs = padded(Array<double>(x_sine), 0.0);
    if (xc.size() != w.size() || xs.size() != w.size()) throw py::value_error("all arrays must have one length");
    HalfRoundingArrays found(w.size());
    word_kernels_by_name(backend).half_gaussian_words(w.data(), xc.data(), xs.data(), is_float32(x_cosine), w.size(), s,
                                                      scaled(kHalfGaussianBound, bound_factor), found.out());
    const py::ssize_t count = words.size();
    return py::make_tuple(first_of(found.n[0], count), first_of(found.n[1], count), first_of(found.d[0], count), first_of(found.d[1], count),
                          first_of(found.limit, count), first_of(found.open, count));
}

py::tuple half_laplace(const std::string& backend, const Words& halves, const py::array& x, float s, float bound_factor) {
    const auto w = padded(halves, std::uint32_t{1} << 15);
    const auto elements = padded(Array<double>(x), 0.0);
    if (elements.size() != w.size()) throw py::value_error("all arrays must have one length");
    HalfRoundingArrays found(w.size());
    word_kernels_by_name(backend).half_laplace_words(w.data(), elements.data(), is_float32(x), w.size(), s,
                                                     scaled(kHalfLaplaceBound, bound_factor), found.out());
    const py::ssize_t count = halves.size();
    return py::make_tuple(first_of(found.n[0], count), first_of(found.d[0], count), first_of(found.limit, count), first_of(found.open, count));
}

py::tuple settle_one_gaussian(int level, const py::bytes& key, std::uint64_t nonce, int rounds, std::uint64_t pair, bool sine,
                              std::uint32_t radius_word, std::uint32_t angle_word, double x, double s) {
    const Settled settled = settle(stream_of(key, nonce, rounds), GaussianWord{pair, radius_word, angle_word, sine}, x, s, level);
    return py::make_tuple(settled.index, settled.level);
}

py::tuple settle_one_laplace(int level, const py::bytes& key, std::uint64_t nonce, int rounds, std::uint64_t sample, std::uint32_t word,
                             double x, double s) {
    const Settled settled = settle(stream_of(key, nonce, rounds), LaplaceWord{sample, word}, x, s, level);
    return py::make_tuple(settled.index, settled.level);
}

void privunit_levels(const py::bytes& key, std::uint64_t nonce, int chacha_rounds, py::handle x, double cap_probability, double threshold,
                     double sigma, py::handle out, double bound_factor, int first_level) {
    const ArrayArgument rows = array_argument(x, "x");
    const ArrayArgument target = output_argument(out, "out");
    check_output_for(rows, target);
    privunit_trial(stream_of(key, nonce, chacha_rounds), rows.view, {cap_probability, threshold}, sigma, target.view, Output::fresh,
                   {bound_factor, first_level});
}

py::dict error_bounds(const std::string& backend) {
    const Kernels& kernels = kernels_by_name(backend);
    py::dict bounds;
    const auto add = [&](const char* law, ErrorBound bound, WordWindow window) {
        py::dict entry;
        entry["constant"] = bound.constant;
        entry["per_scale"] = bound.per_scale;
        entry["per_radius"] = bound.per_radius;
        entry["smallest_word"] = window.smallest;
        entry["largest_word"] = window.largest;
        bounds[law] = entry;
    };
    add("gaussian", kernels.gaussian_bound, kGaussianWindow);
    add("laplacian", kernels.laplace_bound, kLaplaceWindow);
    const auto add_half = [&](const char* law, const HalfWordBound& bound) {
        py::dict entry;
        entry["constant"] = bound.constant;
        py::list widths;
        for (const float width : bound.per_scale) widths.append(width);
        entry["per_scale"] = widths;
        entry["per_radius"] = bound.per_radius;
        bounds[law] = entry;
        return entry;
    };
    py::dict gaussian = add_half("half_gaussian", kHalfGaussianBound);
    gaussian["smallest_word"] = kHalfGaussianWindow.smallest;
    gaussian["largest_word"] = kHalfGaussianWindow.largest;
    add_half("half_laplacian", kHalfLaplaceBound)["smallest_half"] = kHalfLaplaceWindow.smallest;
    return bounds;
}

}  // namespace

void bind_testing(py::module_& module) {
    py::module_ testing = module.def_submodule("_testing", "Hooks for the tests of hushvec; not part of its interface.");
    define(testing, "chacha_block", &block, py::arg("key"), py::arg("counter"), py::arg("nonce"), py::arg("rounds"));
    define(testing, "row_keys", &row_keys, py::arg("backend"), py::arg("key"), py::arg("places"), py::arg("rows"), py::arg("row_bytes"));
    define(testing, "keystream", &keystream, py::arg("backend"), py::arg("key"), py::arg("nonce"), py::arg("rounds"), py::arg("domain"),
                py::arg("first_group"), py::arg("groups"));
    define(testing, "normals", &normals, py::arg("backend"), py::arg("radius_words"), py::arg("angle_words"));
    define(testing, "exponentials", &exponentials, py::arg("backend"), py::arg("words"));
    define(testing, "normals_f64", &normals_f64, py::arg("backend"), py::arg("radius_words"), py::arg("radius_low"), py::arg("angle_words"),
                py::arg("angle_low"));
    define(testing, "laplaces_f64", &laplaces_f64, py::arg("backend"), py::arg("words"), py::arg("low"));
    define(testing, "exact_gaussian", &exact_gaussian, py::arg("backend"), py::arg("key"), py::arg("nonce"), py::arg("rounds"),
                py::arg("first_pair"), py::arg("radius_words"), py::arg("angle_words"), py::arg("x_cos"), py::arg("x_sin"), py::arg("s"),
                py::arg("bound_factor") = 1.0f);
    define(testing, "exact_laplace", &exact_laplace, py::arg("backend"), py::arg("key"), py::arg("nonce"), py::arg("rounds"),
                py::arg("first_sample"), py::arg("words"), py::arg("x"), py::arg("s"), py::arg("bound_factor") = 1.0f);
    define(testing, "half_normals", &half_normals, py::arg("backend"), py::arg("words"));
    define(testing, "half_exponentials", &half_exponentials, py::arg("backend"), py::arg("halves"));
    define(testing, "half_gaussian", &half_gaussian, py::arg("backend"), py::arg("words"), py::arg("x_cos"), py::arg("x_sin"), py::arg("s"),
                py::arg("bound_factor") = 1.0f);
    define(testing, "half_laplace", &half_laplace, py::arg("backend"), py::arg("halves"), py::arg("x"), py::arg("s"),
                py::arg("bound_factor") = 1.0f);
    define(testing, "settle_gaussian", &settle_one_gaussian, py::arg("level"), py::arg("key"), py::arg("nonce"), py::arg("rounds"),
                py::arg("pair"), py::arg("sine"), py::arg("radius_word"), py::arg("angle_word"), py::arg("x"), py::arg("s"));
    define(testing, "settle_laplace", &settle_one_laplace, py::arg("level"), py::arg("key"), py::arg("nonce"), py::arg("rounds"),
                py::arg("sample"), py::arg("word"), py::arg("x"), py::arg("s"));
    define(testing, "privunit", &privunit_levels, py::arg("key"), py::arg("nonce"), py::arg("rounds"), py::arg("x"),
                py::arg("cap_probability"), py::arg("threshold"), py::arg("sigma"), py::arg("out"), py::arg("bound_factor") = 1.0,
                py::arg("first_level") = 2);
    define(testing, "error_bounds", &error_bounds, py::arg("backend"));
}

}  // namespace hushvec::python
