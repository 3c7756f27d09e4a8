// The operations every instruction set supplies: one table each, picked once (dispatch.cpp).
//
// Kernels see pointers, sizes and numbers. They work on whole groups of 256 samples (docs/format.md section 2);
// rows, strides, dtypes and tails are the caller's (clip/staged_rows.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "dispatch/error_bound.hpp"
#include "hushvec/keystream.hpp"

namespace hushvec {

inline constexpr std::size_t kRunScales = 16;

inline constexpr std::size_t kHalfGroup = kGroupSamples / 2;   // from word w of a block to its partner w + 8

// How far apart the q of a run stand: of neighbours, of the two halves of a group, of groups.
struct ScaleLayout {
    std::size_t element, half_group, group;
};
inline constexpr ScaleLayout kOneRow = {0, 0, 0};   // one row, whose q fills one vector
inline constexpr ScaleLayout kEachElement = {1, kHalfGroup, kGroupSamples};
inline constexpr ScaleLayout kEachHalfGroup = {0, kRunScales, 2 * kRunScales};   // rows of whole half groups: a vector for each

// noise/open_queue.hpp
template <class Element>
struct OpenQueue;

// Groups first_group .. first_group + groups - 1 of one call. Element is float, or double for float64 rows.
template <class Element>
struct NoiseRun {
    std::uint64_t first_group;
    std::size_t groups;
    const Element* x;
    const Element* row_scale;      // q, read as vectors of kRunScales
    ScaleLayout scales;
    float* y;                      // may be x itself
    std::size_t x_bytes_ahead;     // from x to what is fetched in step with it, such as the next rows where x is a copy; 0: nothing
};

struct GridScale {
    float s;      // sigma / g, or scale / g
    float grid;   // g
};

// noise/combination.hpp
struct NormalsRun;
struct CombinationRun;

// Rows of the same length, one after the other, each of at least one byte, and a place for each.
inline constexpr std::size_t kRowPlaceBytes = 40;
using RowKey = std::uint32_t[8];
struct RowKeyRun {
    const std::uint64_t* key_state;   // rng/blake2b.hpp
    const std::uint8_t* places;       // kRowPlaceBytes a row
    const std::byte* first_row;
    std::size_t row_bytes;
    std::size_t rows;
    RowKey* keys;
};

// clip/clipped_sum_kernels.hpp
struct RowsToAdd;
enum class Put;

// privunit/row_round.hpp
struct PrivUnitRun;
struct DirectionProducts;

// products/product_kernels.hpp
template <class Element>
struct ProductRun;

// Of a row of whole numbers.
struct WholeSizes {
    std::uint64_t total;   // the sum of the sizes or of their squares, modulo 2^64
    std::uint64_t bits;    // those that some size has
};

struct Kernels {
    const char* name;
    ErrorBound gaussian_bound;
    ErrorBound laplace_bound;

    void (*keystream)(const KeyStream&, std::uint64_t domain_id, std::uint64_t first_group, std::size_t groups, std::uint32_t* words);

    // noise only
    void (*fill_gaussian)(const KeyStream&, float sigma, std::uint64_t first_group, std::size_t groups, float* out);
    void (*fill_laplace)(const KeyStream&, float scale, std::uint64_t first_group, std::size_t groups, float* out);
    void (*fill_gaussian_f64)(const KeyStream&, double sigma, std::uint64_t first_group, std::size_t groups, double* out);
    void (*fill_laplace_f64)(const KeyStream&, double scale, std::uint64_t first_group, std::size_t groups, double* out);

    // float grade: y = x q + sigma Z
    void (*add_gaussian)(const KeyStream&, const NoiseRun<float>&, float sigma);
    void (*add_laplace)(const KeyStream&, const NoiseRun<float>&, float scale);

    // exact: y = g round(x q + s Z)
    void (*exact_gaussian)(const KeyStream&, const NoiseRun<float>&, GridScale, ErrorBound);
    void (*exact_gaussian_f64)(const KeyStream&, const NoiseRun<double>&, GridScale, ErrorBound);
    void (*exact_laplace)(const KeyStream&, const NoiseRun<float>&, GridScale, ErrorBound);
    void (*exact_laplace_f64)(const KeyStream&, const NoiseRun<double>&, GridScale, ErrorBound);

    // the same of version 3, from half words, and what that leaves in the queue; the bound is that of level 1
    void (*half_gaussian)(const KeyStream&, const NoiseRun<float>&, GridScale, ErrorBound, OpenQueue<float>&);
    void (*half_gaussian_f64)(const KeyStream&, const NoiseRun<double>&, GridScale, ErrorBound, OpenQueue<double>&);
    void (*half_laplace)(const KeyStream&, const NoiseRun<float>&, GridScale, ErrorBound, OpenQueue<float>&);
    void (*half_laplace_f64)(const KeyStream&, const NoiseRun<double>&, GridScale, ErrorBound, OpenQueue<double>&);
    void (*settle_gaussian)(const KeyStream&, GridScale, ErrorBound, OpenQueue<float>&);
    void (*settle_gaussian_f64)(const KeyStream&, GridScale, ErrorBound, OpenQueue<double>&);
    void (*settle_laplace)(const KeyStream&, GridScale, ErrorBound, OpenQueue<float>&);
    void (*settle_laplace_f64)(const KeyStream&, GridScale, ErrorBound, OpenQueue<double>&);

    // exact, with the noise of several streams: y = g round(x q + s_1 Z_1 + ... + s_p Z_p)
    void (*add_normals)(const KeyStream&, const NormalsRun&);
    void (*round_combination)(const CombinationRun&, ErrorBound);

    // clip
    double (*sum_of_squares)(const float* row, std::size_t dimension);
    double (*sum_of_squares_f64)(const double* row, std::size_t dimension);
    void (*half_of_squares)(const float* row, std::size_t dimension, std::size_t half, double* sums);
    void (*half_of_squares_f64)(const double* row, std::size_t dimension, std::size_t half, double* sums);
    double (*copy_and_square)(const float* row, std::size_t dimension, float* copy);   // of rows that others may write to
    double (*copy_and_square_f64)(const double* row, std::size_t dimension, double* copy);
    bool (*all_finite)(const float* elements, std::size_t count);
    bool (*all_finite_f64)(const double* elements, std::size_t count);
    void (*scale_row)(const float* row, std::size_t dimension, float scale, float* out);

    // sums of clipped rows
    void (*sums_of_squares)(const float* const* rows, std::size_t count, std::size_t columns, double* squares,
                            std::size_t bytes_ahead);   // rows side by side
    void (*add_rows)(const RowsToAdd&);
    void (*put_integers)(const std::uint32_t* integers, std::size_t count, Put put, std::uint32_t* sums);
    void (*put_integers_f64)(const std::uint32_t* integers, std::size_t count, Put put, double* sums);

    // PrivUnitG
    void (*unit_normals)(const KeyStream&, std::uint64_t first_group, std::size_t groups, float* z, float* radius_squares);
    void (*privunit_round)(const PrivUnitRun&);
    DirectionProducts (*direction_products)(const float* direction, const float* z, std::size_t count);
    void (*round_row)(const float* row, std::size_t count, float scale, float* out);

    // inner products of rows with rows
    void (*inner_products)(const ProductRun<float>&);
    void (*inner_products_f64)(const ProductRun<double>&);

    // rows with streams of their own
    void (*row_keys)(const RowKeyRun&);

    // discrete noise: discrete/place_words.hpp
    std::size_t (*place_words)(int bits_of_cell, const std::uint32_t* words, std::size_t count, std::uint32_t* entries, std::uint32_t* open);

    // rows of whole numbers: discrete/whole_rows.hpp
    WholeSizes (*whole_sizes)(const std::int64_t* row, std::size_t count, bool squares);
    bool (*scale_whole)(const std::int64_t* row, std::size_t count, double q, std::int64_t* out);
    bool (*add_whole)(const std::int64_t* row, const std::int64_t* noise, std::size_t count, std::int64_t* out);
    bool (*add_whole_to_int32)(const std::int64_t* row, const std::int64_t* noise, std::size_t count, std::int32_t* out);

    // counts of ones: collect/bit_rows.hpp
    void (*add_bit_rows)(const std::uint32_t* const* rows, std::size_t chunks, std::size_t bytes_ahead, std::uint32_t* planes);

    // 16-bit floats, as their bits
    void (*widen_float16)(const std::uint16_t* in, std::size_t count, float* out);
    void (*narrow_float16)(const float* in, std::size_t count, std::uint16_t* out);   // to nearest even
    void (*narrow_int8)(const float* in, std::size_t count, std::int8_t* out);         // whole numbers, saturated at +-127
};

// What level 0 makes of one word for each pair (noise/half_words.hpp); of Laplace samples, one for each half word, the first n and d.
struct HalfRoundings {
    float* n[2];
    float* d[2];
    float* limit;
    std::uint8_t* open;   // 0 or 1
};

// The transforms on given words, for the checker of error bounds and the tests; count is a multiple of 16.
struct WordKernels {
    void (*normals)(const std::uint32_t* radius_words, const std::uint32_t* angle_words, std::size_t count,
                    float* radius, float* cosine, float* sine);
    void (*minus_two_logs)(const std::uint32_t* words, std::size_t count, float* out);
    void (*normals_f64)(const std::uint32_t* radius_words, const std::uint32_t* radius_low, const std::uint32_t* angle_words,
                        const std::uint32_t* angle_low, std::size_t count, double* cosine, double* sine);
    void (*laplaces_f64)(const std::uint32_t* words, const std::uint32_t* low, std::size_t count, double* out);
    void (*exact_gaussian_words)(const KeyStream&, std::uint64_t first_pair, const std::uint32_t* radius_words,
                                 const std::uint32_t* angle_words, const double* x_cosine, const double* x_sine, bool x_is_float32,
                                 std::size_t count, float s, ErrorBound, std::int32_t* n_cosine, std::int32_t* n_sine);
    void (*exact_laplace_words)(const KeyStream&, std::uint64_t first_sample, const std::uint32_t* words, const double* x,
                                bool x_is_float32, std::size_t count, float s, ErrorBound, std::int32_t* n);

    // level 0 of version 3; exponents are those that the bound is looked up by
    void (*half_normals)(const std::uint32_t* words, std::size_t count, float* radius, std::uint32_t* exponent, float* cosine, float* sine);
    void (*half_minus_two_logs)(const std::uint32_t* halves, std::size_t count, float* out, std::uint32_t* exponent);
    void (*half_gaussian_words)(const std::uint32_t* words, const double* x_cosine, const double* x_sine, bool x_is_float32, std::size_t count,
                                float s, const HalfWordBound&, const HalfRoundings&);
    void (*half_laplace_words)(const std::uint32_t* halves, const double* x, bool x_is_float32, std::size_t count, float s, const HalfWordBound&,
                               const HalfRoundings&);
};

struct Backend : Kernels {
    WordKernels on_words;
};

// cpp/src/tables
extern const Backend kPortableBackend;
#if defined(__x86_64__)
extern const Backend kAvx2Backend;
extern const Backend kAvx512Backend;
#elif defined(__aarch64__)
extern const Backend kNeonBackend;
#endif

}  // namespace hushvec
