// The functions of the npm package: numbers and places in memory go in, and an error leaves by cpp/src/os/wasm_exceptions.cpp.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "hushvec/calibrate.hpp"
#include "hushvec/clip.hpp"
#include "hushvec/discrete.hpp"
#include "hushvec/inner_products.hpp"
#include "hushvec/noise.hpp"
#include "hushvec/privunit.hpp"
#include "hushvec/unit_rows.hpp"
#include "hushvec/wiped_stream.hpp"

namespace {

using namespace hushvec;

std::uint32_t key_of_call[8];

// The stream of one call, whose key was written to key_place(): its copy there is wiped now, the stream itself when the call ends.
WipedStream stream_of(int cipher, int half_words, double nonce) {
    WipedKey made;
    std::copy_n(key_of_call, 8, made.key);
    wipe(key_of_call, sizeof key_of_call);
    made.cipher = static_cast<Cipher>(cipher);
    made.half_words = half_words != 0;
    made.nonce = static_cast<std::uint64_t>(nonce);
    return WipedStream(made);
}

MatrixView rows_at(float* x, std::size_t rows, std::size_t columns) {
    return {reinterpret_cast<std::byte*>(x), DType::float32, rows, columns, static_cast<std::ptrdiff_t>(columns * sizeof(float)), sizeof(float)};
}

}  // namespace

#define HUSHVEC_EXPORT(name) extern "C" [[clang::export_name(#name)]]

HUSHVEC_EXPORT(allocate)
void* allocate(std::size_t size) { return std::malloc(size); }
HUSHVEC_EXPORT(release)
void release(void* memory) { std::free(memory); }
HUSHVEC_EXPORT(key_place)
std::uint32_t* key_place() { return key_of_call; }
HUSHVEC_EXPORT(version)
const char* version() { return HUSHVEC_VERSION; }

// ---- rows, in place

HUSHVEC_EXPORT(clip_and_noise)
void clip_and_noise_rows(int cipher, int half_words, double nonce, float* x, std::size_t rows, std::size_t columns, double clip_norm,
                         double noise, int law) {
    const MatrixView view = rows_at(x, rows, columns);
    clip_and_noise(stream_of(cipher, half_words, nonce), view, clip_norm, noise, static_cast<Law>(law), true, view, Output::fresh);
}

HUSHVEC_EXPORT(privunit)
void privunit_rows(int cipher, double nonce, float* x, std::size_t rows, std::size_t columns, double cap_probability, double threshold,
                   double sigma) {
    const MatrixView view = rows_at(x, rows, columns);
    privunit(stream_of(cipher, 0, nonce), view, {cap_probability, threshold}, sigma, view, Output::fresh);
}

HUSHVEC_EXPORT(fill_noise)
void fill_noise_rows(int cipher, double nonce, float* out, std::size_t columns, int law, double scale) {
    fill_noise(stream_of(cipher, 0, nonce), static_cast<Law>(law), scale, rows_at(out, 1, columns));
}

HUSHVEC_EXPORT(unit_rows)
void rows_to_unit_length(float* x, std::size_t rows, std::size_t columns) { unit_rows(rows_at(x, rows, columns), rows_at(x, rows, columns)); }

// ---- codes

HUSHVEC_EXPORT(response_law)
void response_law_at(double epsilon, double labels, std::uint64_t* truth_and_other) {
    const ResponseLaw law = response_law(epsilon, static_cast<std::uint64_t>(labels));
    truth_and_other[0] = law.truth;
    truth_and_other[1] = law.other;
}

HUSHVEC_EXPORT(randomized_response)
void respond(int cipher, double nonce, std::int32_t* codes, std::size_t count, double labels, std::uint64_t truth, std::uint64_t other) {
    randomized_response(stream_of(cipher, 0, nonce), {static_cast<std::uint64_t>(labels), truth, other}, codes, count, codes);
}

// Of each row the code with the largest inner product; of equal ones the first.
HUSHVEC_EXPORT(nearest_codes)
void nearest_codes(float* rows, std::size_t count, float* codes, std::size_t code_count, std::size_t columns, std::int32_t* nearest) {
    std::vector<float> scores(code_count);
    for (std::size_t row = 0; row < count; ++row) {
        inner_products(rows_at(rows + row * columns, 1, columns), rows_at(codes, code_count, columns), rows_at(scores.data(), 1, code_count));
        nearest[row] = static_cast<std::int32_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
    }
}

// ---- calibration

HUSHVEC_EXPORT(gaussian_sigma)
double sigma_of(double epsilon, double delta, double sensitivity) { return gaussian_sigma(epsilon, delta, sensitivity); }
HUSHVEC_EXPORT(gaussian_epsilon)
double epsilon_of(double delta, double sigma, double sensitivity) { return gaussian_epsilon(delta, sigma, sensitivity); }
HUSHVEC_EXPORT(gaussian_delta)
double delta_of(double epsilon, double sigma, double sensitivity) { return gaussian_delta(epsilon, sigma, sensitivity); }
HUSHVEC_EXPORT(laplace_scale)
double scale_of(double epsilon, double sensitivity) { return laplace_scale(epsilon, sensitivity); }

HUSHVEC_EXPORT(privunit_law)
void privunit_law_at(double epsilon, double* probability_and_threshold) {
    const PrivUnitLaw law = privunit_law(epsilon);
    probability_and_threshold[0] = law.cap_probability;
    probability_and_threshold[1] = law.threshold;
}
HUSHVEC_EXPORT(privunit_epsilon)
double epsilon_of_law(double probability, double threshold) { return privunit_epsilon({probability, threshold}); }
HUSHVEC_EXPORT(privunit_mean)
double mean_of_law(double probability, double threshold) { return privunit_mean({probability, threshold}); }
HUSHVEC_EXPORT(privunit_grid)
float grid_of_privunit(double sigma) { return privunit_grid(sigma).grid; }
HUSHVEC_EXPORT(exact_grid)
float grid_of(double noise, double clip_norm, int half_words) { return exact_grid(noise, clip_norm, half_words != 0).grid; }
HUSHVEC_EXPORT(noise_as_used)
float noise_as_used(double noise, double clip_norm) { return exact_grid(noise, clip_norm).sigma; }
