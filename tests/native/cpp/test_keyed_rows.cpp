// Rows with streams of their own, without Python, small enough for the sanitizers: the hash, splits, threads, dtypes, refusals.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "check.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/dispatch.hpp"
#include "hushvec/keyed_rows.hpp"
#include "hushvec/threads.hpp"
#include "hushvec/unit_rows.hpp"
#include "hushvec/wiped_stream.hpp"
#include "plain_rows.hpp"
#include "rng/blake2b.hpp"

namespace {

using namespace hushvec;
using test::check;
using test::rows_of;
using test::view_of;

constexpr std::array<std::uint8_t, 32> kKey = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
                                               16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

// Python's hashlib.blake2b(message, key=bytes(range(32)), digest_size=32) of 40 bytes of place and n of row, byte i of the message
// being (7 i + 3) mod 256.
struct Known {
    std::size_t row_bytes;
    std::uint32_t key[8];
};
constexpr Known kKnown[] = {
    {1, {0xf15a4971, 0xe6399018, 0xd0587da8, 0xad36acc1, 0x935a1774, 0xdb8bf464, 0xdbda5a2a, 0xa75bcf25}},
    {2, {0xa76a8d03, 0x2d7dd7d4, 0xb0fc4bbd, 0x348f934d, 0x4fd1c2ca, 0x6ac54ee7, 0xd8cc2df2, 0xc6bf7ffe}},
    {87, {0x553e25c3, 0xcba79c52, 0x02103a4a, 0x19463e69, 0x8b05e2db, 0x4235df7a, 0xc68d2074, 0x0d87a307}},
    {88, {0x697fb245, 0x12383cea, 0xfa69d342, 0xbd8cfcfd, 0xc210e754, 0x0da8be42, 0xdfc87203, 0xda6c7723}},
    {89, {0x694a53b0, 0xfa65c5d4, 0xb02f968c, 0xe92c0f5d, 0xdadd709f, 0xa2950ad0, 0xb2f0ab20, 0xc8414fea}},
    {90, {0xaf34dc72, 0xd3ccb44f, 0x60b11b76, 0x4ceada7c, 0x440510fe, 0x7fc019bd, 0x3dd8bbe7, 0x0250b5f6}},
    {215, {0xfe818b06, 0x7f996279, 0x9382c4ac, 0x025d6d6c, 0x837cdb6c, 0xf8af2834, 0x31eb6272, 0xa10130ce}},
    {216, {0x168e4080, 0xfa6c97e6, 0x5c873a90, 0xff9a5c07, 0xdd715dc5, 0x02fd7406, 0xb7ca79a2, 0x962a310a}},
    {217, {0xa3c6bf98, 0xb55c2ed5, 0xaa45e025, 0x1f6464b7, 0x2168ae05, 0x77474da0, 0x95d12c11, 0xc2b8bcfc}},
    {1536, {0x644eba11, 0xd4d0c1e5, 0xedf12b5e, 0x75780dc1, 0xe270fafd, 0x0a5a67a3, 0x256e4c20, 0xd94597f5}}};

// Every backend of the machine, for numbers of rows around those of its lanes: row r has r added to its last byte.
void row_keys_are_blake2b() {
    const Blake2bKey key(kKey);
    for (const std::string& backend : available_backends()) {
        const Kernels& kernels = kernels_by_name(backend);
        for (const Known& known : kKnown) {
            for (const std::size_t count : {1u, 2u, 3u, 5u, 8u, 9u, 16u, 17u}) {
                std::vector<std::uint8_t> places, rows;
                for (std::size_t row = 0; row < count; ++row) {
                    for (std::size_t i = 0; i < kRowPlaceBytes; ++i) places.push_back(static_cast<std::uint8_t>(7 * i + 3));
                    for (std::size_t i = 0; i < known.row_bytes; ++i) rows.push_back(static_cast<std::uint8_t>(7 * (i + kRowPlaceBytes) + 3));
                    rows.back() = static_cast<std::uint8_t>(rows.back() + row);
                }
                std::vector<std::uint32_t> together(8 * count), alone(8 * count);
                const auto run = [&](std::size_t first, std::size_t some, std::uint32_t* out) {
                    kernels.row_keys({key.state, places.data() + first * kRowPlaceBytes,
                                      reinterpret_cast<const std::byte*>(rows.data()) + first * known.row_bytes, known.row_bytes, some,
                                      reinterpret_cast<RowKey*>(out)});
                };
                run(0, count, together.data());
                for (std::size_t row = 0; row < count; ++row) run(row, 1, alone.data() + 8 * row);
                const std::string what = backend + ", " + std::to_string(count) + " rows of " + std::to_string(known.row_bytes) + " bytes";
                check(std::equal(known.key, known.key + 8, together.begin()), what);
                check(together == alone, what + ", one by one");
                if (count > 1) check(!std::equal(known.key, known.key + 8, together.begin() + 8), what + ", the second differs");
            }
        }
    }
}

std::vector<std::uint8_t> places_of(std::size_t rows, std::size_t first = 0) {
    std::vector<std::uint8_t> places(rows * kRowPlaceBytes);
    for (std::size_t row = 0; row < rows; ++row) {
        const std::uint64_t number = first + row;
        std::memcpy(places.data() + row * kRowPlaceBytes, &number, sizeof number);
    }
    return places;
}

template <class T>
std::vector<T> released(std::vector<T> x, DType dtype, std::size_t rows, std::size_t columns, std::size_t first_row, Law law,
                        Cipher cipher = Cipher::chacha20) {
    const auto places = places_of(rows, first_row);
    std::vector<T> y(x.size());
    clip_and_noise_keyed({kKey, places.data(), cipher}, view_of(x, dtype, rows, columns), 1.0, 0.7, law, view_of(y, dtype, rows, columns));
    return y;
}

constexpr PrivUnitLaw kPrivUnit = {0.5, 0.25};

// The row by the public functions: its stream, then a call of one row.
template <class T>
void rows_are_calls_of_one_row(DType dtype, std::vector<T> x, std::size_t rows, std::size_t columns, Cipher cipher) {
    const auto places = places_of(rows);
    const Blake2bKey key(kKey);
    const auto row_by_row = [&](auto release) {
        std::vector<T> expected(x.size());
        for (std::size_t row = 0; row < rows; ++row) {
            MatrixView from = view_of(x, dtype, rows, columns), to = view_of(expected, dtype, rows, columns);
            from.data = from.at(row, 0);
            to.data = to.at(row, 0);
            from.rows = to.rows = 1;
            KeyStream stream;
            stream.cipher = cipher;
            active_kernels().row_keys({key.state, places.data() + row * kRowPlaceBytes, from.data, columns * item_size(dtype), 1, &stream.key});
            release(WipedStream(stream), from, to);
        }
        return expected;
    };
    const std::string where = std::string(", ") + name_of(cipher) + ", " + std::to_string(columns) + " columns of " +
                              std::to_string(item_size(dtype)) + " bytes";
    for (const Law law : {Law::gaussian, Law::laplacian}) {
        const auto expected = row_by_row([&](const KeyStream& stream, const MatrixView& from, const MatrixView& to) {
            clip_and_noise(stream, from, 1.0, 0.7, law, true, to);
        });
        check(released(x, dtype, rows, columns, 0, law, cipher) == expected, "one call a row" + where);
    }
    std::vector<T> y(x.size());
    privunit_keyed({kKey, places.data(), cipher}, view_of(x, dtype, rows, columns), kPrivUnit, 0.7, view_of(y, dtype, rows, columns));
    const auto expected = row_by_row([&](const KeyStream& stream, const MatrixView& from, const MatrixView& to) {
        privunit(stream, from, kPrivUnit, 0.7, to);
    });
    check(y == expected, "privunit, one call a row" + where);
}

void ciphers_give_other_rows() {
    const auto x = rows_of(40);
    const auto aes = released(x, DType::float32, 1, 40, 0, Law::gaussian, Cipher::aes256);
    const auto chacha = released(x, DType::float32, 1, 40, 0, Law::gaussian, Cipher::chacha20);
    std::size_t same = 0;
    for (std::size_t i = 0; i < 40; ++i) same += aes[i] == chacha[i] ? 1u : 0u;
    check(same < 8, "AES-256 for ChaCha20: " + std::to_string(same) + " of 40 elements are the same");
}

void splits_and_threads_agree() {
    const std::size_t rows = 1500, columns = 385, cut = 777;
    const auto x = rows_of(rows * columns);
    const std::vector<float> behind(x.begin() + static_cast<std::ptrdiff_t>(cut * columns), x.end());
    for (const Cipher cipher : {Cipher::chacha20, Cipher::aes256}) {
        set_num_threads(1);
        const auto expected = released(x, DType::float32, rows, columns, 0, Law::gaussian, cipher);
        set_num_threads(4);
        check(released(x, DType::float32, rows, columns, 0, Law::gaussian, cipher) == expected, "four threads");
        set_num_threads(0);
        const auto rest = released(behind, DType::float32, rows - cut, columns, cut, Law::gaussian, cipher);
        check(std::equal(rest.begin(), rest.end(), expected.begin() + static_cast<std::ptrdiff_t>(cut * columns)), "rows from 777 on alone");
    }
}

void the_row_and_its_place_decide() {
    const std::size_t columns = 64;
    auto x = rows_of(columns);
    const auto first = released(x, DType::float32, 1, columns, 0, Law::gaussian);
    check(released(x, DType::float32, 1, columns, 0, Law::gaussian) == first, "the same row again");
    check(released(x, DType::float32, 1, columns, 1, Law::gaussian) != first, "another place");
    x[63] = std::nextafter(x[63], 2.0f);
    const auto other = released(x, DType::float32, 1, columns, 0, Law::gaussian);
    std::size_t same = 0;
    for (std::size_t i = 0; i < columns; ++i) same += other[i] == first[i] ? 1u : 0u;
    check(same < 8, "one bit of the row changed: " + std::to_string(same) + " of 64 elements are the same");
}

void unit_rows_have_unit_length() {
    for (const std::size_t columns : {1u, 33u, 385u, 9000u}) {
        const std::size_t rows = columns < 1000 ? 500 : 40;
        auto x = rows_of(rows * columns);
        std::fill_n(x.begin(), columns, 0.0f);
        std::vector<float> y(x.size());
        const MatrixView from = view_of(x, DType::float32, rows, columns), to = view_of(y, DType::float32, rows, columns);
        set_num_threads(3);
        unit_rows(from, to);
        set_num_threads(0);
        const std::string where = " at " + std::to_string(columns) + " columns";
        bool unit = true;
        for (std::size_t row = 0; row < rows; ++row) {
            double sum = 0;
            for (std::size_t j = 0; j < columns; ++j) sum += double{y[row * columns + j]} * double{y[row * columns + j]};
            unit = unit && std::abs(sum - (row == 0 ? 0.0 : 1.0)) < 1e-5;
        }
        check(unit, "unit length" + where);
        MatrixView last = from;
        last.data = from.at(rows - 1, 0);
        last.rows = 1;
        unit_rows(last, last);
        check(std::equal(x.end() - static_cast<std::ptrdiff_t>(columns), x.end(), y.end() - static_cast<std::ptrdiff_t>(columns)),
              "a row alone and in place" + where);
    }
}

void unit_rows_of_any_layout() {
    constexpr std::size_t rows = 6, columns = 40, used = 39;
    auto x = rows_of(rows * columns);
    std::vector<float> packed, expected(rows * used), found(rows * used);
    for (std::size_t row = 0; row < rows; ++row) packed.insert(packed.end(), &x[row * columns], &x[row * columns] + used);
    MatrixView narrow = view_of(x, DType::float32, rows, columns);
    narrow.columns = used;
    unit_rows(view_of(packed, DType::float32, rows, used), view_of(expected, DType::float32, rows, used));
    unit_rows(narrow, view_of(found, DType::float32, rows, used));
    check(found == expected, "rows with gaps between them have the bits of rows without");
}

template <class Work>
bool refuses(Work work) {
    try {
        work();
    } catch (const std::invalid_argument&) {
        return true;
    }
    return false;
}

void bad_input_is_refused() {
    auto x = rows_of(6 * 40);
    x[3 * 40 + 7] = NAN;
    x[5 * 40] = INFINITY;
    std::vector<float> y(x.size());
    const auto places = places_of(6);
    const RowKeySource source = {kKey, places.data()};
    const MatrixView from = view_of(x, DType::float32, 6, 40), to = view_of(y, DType::float32, 6, 40);
    std::string message;
    try {
        clip_and_noise_keyed(source, from, 1.0, 1.0, Law::gaussian, to);
    } catch (const NonFiniteRow& error) {
        message = error.what();
    }
    check(message.find("row 3") != std::string::npos, "the first row with NaN is named, got '" + message + "'");
    check(refuses([&] { privunit_keyed(source, from, privunit_law(6.0), 1.0, to); }), "privunit of NaN");
    check(refuses([&] { clip_and_noise_keyed(source, from, 0.0, 1.0, Law::gaussian, to); }), "clip_norm 0");
    check(refuses([&] { clip_and_noise_keyed(source, from, 1.0, 0.0, Law::gaussian, to); }), "sigma 0");
    check(refuses([&] { clip_and_noise_keyed(source, from, 1.0, 1.0, Law::l2_laplace, to); }), "l2_laplace");
    check(refuses([&] { clip_and_noise_keyed(source, from, 1.0, 1.0, Law::gaussian, from); }), "in place");
    MatrixView narrow = from;
    narrow.columns = 39;
    check(refuses([&] { clip_and_noise_keyed(source, narrow, 1.0, 1.0, Law::gaussian, to); }), "strided rows");
}

}  // namespace

int main() {
    row_keys_are_blake2b();
    constexpr std::size_t rows = 6;   // streams of AES are keyed four at a time
    for (const Cipher cipher : {Cipher::chacha20, Cipher::aes256}) {
        for (const std::size_t columns : {1u, 15u, 255u, 256u, 257u, 384u, 5000u}) {
            const auto narrow = rows_of(rows * columns);
            rows_are_calls_of_one_row<float>(DType::float32, narrow, rows, columns, cipher);
            rows_are_calls_of_one_row<double>(DType::float64, std::vector<double>(narrow.begin(), narrow.end()), rows, columns, cipher);
            rows_are_calls_of_one_row<std::uint16_t>(DType::float16, std::vector<std::uint16_t>(rows * columns, 0x3555), rows, columns, cipher);
        }
    }
    ciphers_give_other_rows();
    splits_and_threads_agree();
    the_row_and_its_place_decide();
    unit_rows_have_unit_length();
    unit_rows_of_any_layout();
    bad_input_is_refused();
    return test::summary();
}
