// Frozen releases: a digest of each kind of release of seeded generators, the same on every system, compiler and set of instructions.
// tests/evidence/vectors/frozen_releases.csv has them, as the portable lanes gave them on x86-64; `--print` prints them as they are here.
// Without the float grade and inner products, whose last places are those of the instructions (docs/format.md section 6).
// The backend and the form of AES are those of HUSHVEC_BACKEND and HUSHVEC_AES; without them, those that this machine prefers.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "check.hpp"
#include "hushvec/clip.hpp"
#include "hushvec/clipped_sum.hpp"
#include "hushvec/collect.hpp"
#include "hushvec/discrete.hpp"
#include "hushvec/discrete_noise.hpp"
#include "hushvec/dispatch.hpp"
#include "hushvec/generator.hpp"
#include "hushvec/hadamard.hpp"
#include "hushvec/keyed_rows.hpp"
#include "hushvec/noise.hpp"
#include "hushvec/privunit.hpp"
#include "hushvec/unit_rows.hpp"
#include "lanes/float16.hpp"

namespace {

using namespace hushvec;
using test::check;

constexpr std::size_t kRows = 120, kColumns = 257;
constexpr int kSkipped = 77;   // what ctest takes for it (SKIP_RETURN_CODE)

// SplitMix64: the same words everywhere.
class Words {
public:
    explicit Words(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() {
        std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }
    std::uint64_t below(std::uint64_t count) { return next() % count; }

private:
    std::uint64_t state_;
};

// A matrix in memory of its own.
struct Matrix {
    Matrix(DType type, std::size_t row_count, std::size_t column_count)
        : dtype(type), rows(row_count), columns(column_count), bytes(rows * columns * item_size(dtype)) {}

    MatrixView view() {
        const auto item = static_cast<std::ptrdiff_t>(item_size(dtype));
        return {bytes.data(), dtype, rows, columns, static_cast<std::ptrdiff_t>(columns) * item, item};
    }
    void set(std::size_t at, double value) {
        std::byte* place = bytes.data() + at * item_size(dtype);
        const auto narrow = static_cast<float>(value);
        const std::uint16_t half = dtype == DType::float16 ? float_to_float16(narrow) : float_to_bfloat16(narrow);
        switch (dtype) {
            case DType::float64: std::memcpy(place, &value, sizeof value); break;
            case DType::float32: std::memcpy(place, &narrow, sizeof narrow); break;
            default: std::memcpy(place, &half, sizeof half); break;
        }
    }

    DType dtype;
    std::size_t rows, columns;
    std::vector<std::byte> bytes;
};

// Rows of norms from 0 to about 10: some are clipped, some are not.
Matrix rows_of(DType dtype, std::size_t rows = kRows, std::size_t columns = kColumns) {
    Matrix matrix(dtype, rows, columns);
    Words words(61);
    for (std::size_t at = 0; at < rows * columns; ++at) {
        const auto integer = static_cast<double>(static_cast<std::int32_t>(words.next() >> 32));
        matrix.set(at, integer * 0x1p-31 * static_cast<double>(at / columns % 16) * 0x1p-4);
    }
    return matrix;
}

// FNV-1a of little-endian bytes.
std::string digest(const void* bytes, std::size_t size) {
    std::uint64_t hash = 0xCBF29CE484222325u;
    for (std::size_t i = 0; i < size; ++i) hash = (hash ^ static_cast<const std::uint8_t*>(bytes)[i]) * 0x100000001B3u;
    char text[17];
    for (int digit = 0; digit < 16; ++digit) text[digit] = "0123456789abcdef"[hash >> (60 - 4 * digit) & 15];
    return std::string(text, 16);
}

template <class Element>
std::string digest(const std::vector<Element>& values) {
    return digest(values.data(), values.size() * sizeof(Element));
}

const char* name_of(DType dtype) {
    switch (dtype) {
        case DType::float32: return "float32";
        case DType::float64: return "float64";
        case DType::float16: return "float16";
        case DType::bfloat16: return "bfloat16";
        case DType::int8: return "int8";
    }
    return "";
}

constexpr DType kFloats[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16};
// Given, not solved for: a solver calls the C library's logarithms, which are not the same everywhere.
constexpr PrivUnitLaw kPrivUnit = {0x1.d96de513dc4b8p-1, 0x1.a149a76c64a7ep+1};
constexpr PrivUnitLaw kPrivUnitInt8 = {0x1.fb3855b4fe2c1p-1, 0x1.4699ea1765042p+3};
constexpr ResponseLaw kResponse = {200, 1064138149227587560u, 87349778514984744u};
constexpr ResponseLaw kBlocks = {8, 7200384089135882731u, 1606622854939095555u};
constexpr BitLaw kBits = {std::uint64_t{1} << 63, 3365156950168264548u};

class Releases {
public:
    std::vector<std::pair<std::string, std::string>> all;

    void make() {
        for (const Cipher cipher : {Cipher::aes256, Cipher::chacha20}) {
            for (const Law law : {Law::gaussian, Law::laplacian}) {
                for (const DType dtype : kFloats) noisy_rows(cipher, law, dtype, dtype);
            }
            for (const DType dtype : {DType::float32, DType::float64}) noisy_rows(cipher, Law::gaussian, dtype, DType::int8);
            privunit_rows(cipher, kPrivUnit, DType::float32, DType::float32);
        }
        for (const Cipher cipher : {Cipher::chacha12, Cipher::chacha8}) noisy_rows(cipher, Law::gaussian, DType::float32, DType::float32);
        privunit_rows(Cipher::aes256, kPrivUnit, DType::float64, DType::float64);
        privunit_rows(Cipher::aes256, kPrivUnit, DType::bfloat16, DType::bfloat16);
        privunit_rows(Cipher::aes256, kPrivUnitInt8, DType::float32, DType::int8);
        keyed_rows();
        sums();
        integers();
        reports();
        without_noise();
        for (const Cipher cipher : {Cipher::aes256, Cipher::chacha20}) {
            for (const Law law : {Law::gaussian, Law::laplacian}) {
                for (const DType dtype : kFloats) noisy_rows(cipher, law, dtype, dtype, kVersion3);
            }
            for (const DType dtype : {DType::float32, DType::float64}) noisy_rows(cipher, Law::gaussian, dtype, DType::int8, kVersion3);
        }
        for (const Cipher cipher : {Cipher::aes256, Cipher::chacha20}) clipped_sum(cipher);
    }

private:
    // Every release has a generator of its own, whose seed is the number of the release.
    WipedStream stream(Cipher cipher = Cipher::aes256, bool half_words = false) {
        Generator::Key key{};
        for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::uint8_t>(7 * i + all.size() + 1);
        return Generator(key, cipher, {}, half_words).reserve();
    }

    void add(const std::string& name, const std::string& bits) { all.emplace_back(name, bits); }

    static constexpr bool kVersion3 = true;

    void noisy_rows(Cipher cipher, Law law, DType from, DType to, bool version_3 = false) {
        Matrix x = rows_of(from), out(to, kRows, kColumns);
        clip_and_noise(stream(cipher, version_3), x.view(), 2.0, 0.3, law, true, out.view());
        const std::string types = from == to ? name_of(from) : std::string(name_of(from)) + " as " + name_of(to);
        add(std::string(law == Law::gaussian ? "gaussian" : "laplacian") + " rows of " + types + " under " + name_of(cipher) +
                (version_3 ? " in version 3" : ""),
            digest(out.bytes));
    }

    void privunit_rows(Cipher cipher, PrivUnitLaw law, DType from, DType to) {
        Matrix x = rows_of(from), out(to, kRows, kColumns);
        privunit(stream(cipher), x.view(), law, 0.3, out.view());
        const std::string types = from == to ? name_of(from) : std::string(name_of(from)) + " as " + name_of(to);
        add("privunit rows of " + types + " under " + name_of(cipher), digest(out.bytes));
    }

    void keyed_rows() {
        std::vector<std::uint8_t> places(40 * kRows);
        for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<std::uint8_t>(i / 40 + i % 40);
        RowKeySource source{{}, places.data(), Cipher::chacha20};
        source.key.fill(9);
        for (const DType dtype : {DType::float32, DType::float64}) {
            Matrix x = rows_of(dtype), out(dtype, kRows, kColumns);
            clip_and_noise_keyed(source, x.view(), 2.0, 0.3, Law::gaussian, out.view());
            add(std::string("keyed gaussian rows of ") + name_of(dtype), digest(out.bytes));
        }
        source.cipher = Cipher::aes256;
        Matrix x = rows_of(DType::float32), out(DType::float32, kRows, kColumns);
        privunit_keyed(source, x.view(), kPrivUnit, 0.3, out.view());
        add("keyed privunit rows of float32", digest(out.bytes));
    }

    void sums() {
        for (const Clipping clipping : {Clipping::exact, Clipping::estimated}) {
            Matrix x = rows_of(DType::float32);
            ClippedSum sum({kColumns}, 2.0, 1.5, kRows, clipping);
            sum.add({x.view()});
            std::vector<float> out(kColumns);
            sum.release(0, stream(), out.data());
            add(clipping == Clipping::exact ? "clipped sum" : "clipped sum by estimated norms", digest(out));
        }
        std::vector<std::int64_t> whole(1000);
        Words words(62);
        for (std::int64_t& one : whole) one = static_cast<std::int64_t>(words.below(1u << 30)) - (1 << 29);
        std::vector<double> out(whole.size());
        release_whole_sums(whole.data(), whole.size(), 0x1p-10, 8.0, stream(), out.data());
        add("sums of whole numbers", digest(out));
    }

    void clipped_sum(Cipher cipher) {
        Matrix x = rows_of(DType::float64);
        ClippedSum sum({kColumns}, 2.0, 1.5, kRows, Clipping::exact);
        sum.add({x.view()});
        std::vector<float> out(kColumns);
        sum.release(0, stream(cipher, kVersion3), out.data());
        add(std::string("clipped sum under ") + name_of(cipher) + " in version 3", digest(out));
    }

    void integers() {
        std::vector<std::int64_t> wide(20000);
        std::vector<std::int32_t> narrow(wide.size());
        fill_discrete(stream(), DiscreteLaw::gaussian, 3.25, narrow.data(), narrow.size());
        add("discrete gaussian noise of int32", digest(narrow));
        fill_discrete(stream(), DiscreteLaw::laplacian, 0x1p22, wide.data(), wide.size());
        add("discrete laplacian noise of int64", digest(wide));

        std::vector<std::int64_t> codes(20000), answers(codes.size());
        Words words(63);
        for (std::int64_t& one : codes) one = static_cast<std::int64_t>(words.below(200));
        randomized_response(stream(), kResponse, codes.data(), codes.size(), answers.data());
        add("randomized response", digest(answers));

        const TopKSelection selection{101, 7, 0.8, 1.0};
        std::vector<float> scores(500 * selection.candidates);
        for (float& one : scores) one = static_cast<float>(words.below(99));
        std::vector<std::int64_t> indices(500 * selection.picks);
        for (const UndecidedRow& row : gumbel_top_k(stream(), selection, scores.data(), 500, indices.data())) {
            std::fill_n(indices.begin() + static_cast<std::ptrdiff_t>(row.row * selection.picks), selection.picks, -1);
        }
        add("top-k", digest(indices));
        add("Poisson sample", digest(poisson_sample(stream(), 100000, std::uint64_t{1} << 61)));
    }

    void reports() {
        std::vector<std::int64_t> codes(400);
        Words words(64);
        for (std::int64_t& one : codes) one = static_cast<std::int64_t>(words.below(2100));
        std::vector<std::uint32_t> bits(codes.size() * report_words(2100)), again(bits.size()), cells(codes.size());
        one_bit_reports(stream(), kBits, codes.data(), codes.size(), 2100, bits.data());
        add("reports of one bit", digest(bits));
        perturb_bits(stream(Cipher::chacha20), kBits, {bits.data(), codes.size(), 2100}, again.data());
        add("perturbed bits", digest(again));
        hadamard_reports(stream(), {4, 1024, kBlocks}, codes.data(), codes.size(), cells.data());
        add("Hadamard reports", digest(cells));
    }

    void without_noise() {
        for (const DType dtype : kFloats) {
            Matrix x = rows_of(dtype), out(dtype, kRows, kColumns);
            clip(x.view(), 2.0, out.view());
            add(std::string("clipped rows of ") + name_of(dtype), digest(out.bytes));
        }
        for (const DType dtype : {DType::float32, DType::float64}) {
            Matrix x = rows_of(dtype), out(dtype, kRows, kColumns);
            unit_rows(x.view(), out.view());
            add(std::string("unit rows of ") + name_of(dtype), digest(out.bytes));
        }
        Matrix x = rows_of(DType::float64, kRows, 256);
        hadamard_transform(x.view());
        add("Hadamard transform", digest(x.bytes));
    }
};

// By the C library: libc++ of WebAssembly has no streams of files.
std::map<std::string, std::string> read_vectors(const char* path) {
    std::map<std::string, std::string> vectors;
    std::FILE* file = std::fopen(path, "r");
    if (file == nullptr) return vectors;
    char read[200];
    while (std::fgets(read, sizeof read, file) != nullptr) {
        std::string line = read;
        line.erase(line.find_last_not_of("\r\n") + 1);
        const std::size_t comma = line.rfind(',');
        if (comma != std::string::npos && line != "release,digest") vectors[line.substr(0, comma)] = line.substr(comma + 1);
    }
    std::fclose(file);
    return vectors;
}

// Whether the variable asks for what this machine does not have.
bool lacks(const char* variable, const std::vector<std::string>& available) {
    const char* asked = std::getenv(variable);
    if (asked == nullptr || *asked == '\0' || std::find(available.begin(), available.end(), asked) != available.end()) return false;
    std::printf("skipped: this machine has no %s\n", asked);
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    if (lacks(kBackendVariable, available_backends()) || lacks(kAesVariable, available_aes())) return kSkipped;
    if (argc != 2) {
        std::printf("usage: test_frozen frozen_releases.csv | --print\n");
        return 2;
    }
    Releases releases;
    releases.make();
    if (std::strcmp(argv[1], "--print") == 0) {
        std::printf("release,digest\n");
        for (const auto& [name, bits] : releases.all) std::printf("%s,%s\n", name.c_str(), bits.c_str());
        return 0;
    }
    const std::map<std::string, std::string> vectors = read_vectors(argv[1]);
    check(vectors.size() == releases.all.size(), "as many vectors as releases");
    for (const auto& [name, bits] : releases.all) {
        const auto frozen = vectors.find(name);
        check(frozen != vectors.end() && frozen->second == bits, name + ": got " + bits);
    }
    std::printf("with %s, AES by %s\n", active_backend().c_str(), active_aes_name().c_str());
    return test::summary();
}
