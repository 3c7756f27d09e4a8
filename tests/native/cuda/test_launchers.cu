// Every launcher on a device, at awkward sizes, held against the CPU core: the same bits in the exact grade.
// Small enough for compute-sanitizer. Needs a device: prints why and exits 77 without one.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "check.hpp"
#include "device_rows.hpp"
#include "hushvec/clip.hpp"
#include "hushvec/clipped_sum.hpp"
#include "hushvec/noise.hpp"
#include "hushvec/privunit.hpp"
#include "hushvec/unit_rows.hpp"
#include "hushvec_cuda/discrete.hpp"
#include "hushvec_cuda/launch.hpp"
#include "hushvec_cuda/privunit.hpp"
#include "hushvec_cuda/row_passes.hpp"
#include "plain_products.hpp"

namespace {

using namespace hushvec;
using namespace hushvec::test;

void must(cudaError_t error, const char* what) { check(error == cudaSuccess, std::string(what) + ": " + cudaGetErrorString(error)); }

template <class T>
class DeviceArray {
public:
    explicit DeviceArray(std::size_t count) : count_(count) { must(cudaMalloc(&data_, bytes() + 1), "cudaMalloc"); }
    explicit DeviceArray(const std::vector<T>& from) : DeviceArray(from.size()) {
        must(cudaMemcpy(data_, from.data(), bytes(), cudaMemcpyHostToDevice), "copy to the device");
    }
    DeviceArray(const DeviceArray&) = delete;
    DeviceArray& operator=(const DeviceArray&) = delete;
    ~DeviceArray() { cudaFree(data_); }
    T* get() { return data_; }
    std::vector<T> to_host() const {
        std::vector<T> result(count_);
        must(cudaMemcpy(result.data(), data_, bytes(), cudaMemcpyDeviceToHost), "copy from the device");
        return result;
    }

private:
    std::size_t bytes() const { return count_ * sizeof(T); }
    std::size_t count_;
    T* data_ = nullptr;
};

cuda::Report report_in(DeviceArray<std::byte>& workspace) {
    cuda::Report report = {};
    must(cudaMemcpy(&report, workspace.get(), sizeof report, cudaMemcpyDeviceToHost), "read the report");
    return report;
}

template <class Stored>
void rows_equal_the_core(std::size_t rows, std::size_t columns) {
    const ExactGrid grid = exact_grid(kSigma, kClipNorm);
    const std::string what = std::to_string(rows) + " x " + std::to_string(columns) + ", item " + std::to_string(sizeof(Stored));
    for (const Law law : {Law::gaussian, Law::laplacian}) {
        std::vector<Stored> x = rows_of<Stored>(rows, columns), expected(x.size());
        hushvec::clip_and_noise(test_stream(), view_of(x, rows, columns), kClipNorm, kSigma, law, true, view_of(expected, rows, columns));
        DeviceArray<Stored> in_place(x);
        DeviceArray<std::byte> workspace(cuda::workspace_bytes(rows, columns, kDType<Stored>));
        const cuda::NoiseSource source = {test_stream(), nullptr};
        must(cuda::clip_and_noise(source, {in_place.get(), in_place.get(), kDType<Stored>, rows, columns}, kClipNorm, kSigma, law, grid,
                                  workspace.get(), nullptr),
             "clip_and_noise");
        if (report_in(workspace).open_samples > 0) must(cuda::settle(source.stream, {in_place.get(), kDType<Stored>, rows * columns}, law, grid, workspace.get(), nullptr), "settle");
        check(same_bits(in_place.to_host(), expected), "exact, " + what);
        check(report_in(workspace).first_bad_row == cuda::kNoRow, "no bad row, " + what);

        DeviceArray<Stored> again(x);
        must(cuda::clip_and_noise(source, {again.get(), again.get(), kDType<Stored>, rows, columns}, kClipNorm, kSigma, law, {0, 0},
                                  workspace.get(), nullptr),
             "float grade");
    }
    std::vector<Stored> x = rows_of<Stored>(rows, columns), expected(x.size());
    hushvec::clip(view_of(x, rows, columns), kClipNorm, view_of(expected, rows, columns));
    DeviceArray<Stored> from(x), out(x.size());
    DeviceArray<std::byte> workspace(cuda::workspace_bytes(rows, columns, kDType<Stored>));
    must(cuda::clip({from.get(), out.get(), kDType<Stored>, rows, columns}, kClipNorm, workspace.get(), nullptr), "clip");
    check(same_bits(out.to_host(), expected), "clip, " + what);

    hushvec::unit_rows(view_of(x, rows, columns), view_of(expected, rows, columns));
    must(cuda::unit_rows({from.get(), out.get(), kDType<Stored>, rows, columns}, workspace.get(), nullptr), "unit_rows");
    check(same_bits(out.to_host(), expected) && report_in(workspace).first_bad_row == cuda::kNoRow, "unit rows, " + what);
    must(cuda::unit_rows({from.get(), from.get(), kDType<Stored>, rows, columns}, nullptr, nullptr), "unit_rows");
    check(same_bits(from.to_host(), expected), "unit rows in place, " + what);
    must(cuda::find_bad_row({from.get(), nullptr, kDType<Stored>, rows, columns}, workspace.get(), nullptr), "find_bad_row");
    check(report_in(workspace).first_bad_row == cuda::kNoRow, "rows are finite, " + what);
}

template <class Stored>
void privunit_equals_the_core(std::size_t rows, std::size_t columns) {
    const std::string what = std::to_string(rows) + " x " + std::to_string(columns) + ", item " + std::to_string(sizeof(Stored));
    const PrivUnitLaw law = privunit_law(6.0);
    const ExactGrid grid = privunit_grid(kSigma);
    std::vector<Stored> x = rows_of<Stored>(rows, columns), expected(x.size());
    hushvec::privunit(test_stream(), view_of(x, rows, columns), law, kSigma, view_of(expected, rows, columns));
    DeviceArray<Stored> in_place(x);
    DeviceArray<std::byte> workspace(cuda::privunit_workspace_bytes(rows, columns, kDType<Stored>));
    const cuda::RowsArgument argument = {in_place.get(), in_place.get(), kDType<Stored>, rows, columns};
    must(cuda::privunit(test_stream(), argument, law, grid, workspace.get(), nullptr), "privunit");
    const cuda::Report report = report_in(workspace);
    check(report.first_bad_row == cuda::kNoRow && report.overflow == 0, "report of privunit, " + what);
    must(cuda::settle_privunit(test_stream(), argument, law, grid, report, workspace.get(), nullptr), "settle_privunit");
    check(same_bits(in_place.to_host(), expected), "privunit, " + what);
}

template <class Stored>
void fills_are_close_to_the_core(std::size_t count) {
    for (const Law law : {Law::gaussian, Law::laplacian}) {
        std::vector<Stored> expected(count);
        hushvec::fill_noise(test_stream(), law, 2.5, view_of(expected, 1, count));
        DeviceArray<Stored> out(count);
        must(cuda::fill_noise({test_stream(), nullptr}, law, 2.5, {out.get(), kDType<Stored>, count}, nullptr, nullptr), "fill");
        const std::vector<Stored> got = out.to_host();
        double worst = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const double z = cuda::widened(expected[i]);
            worst = std::max(worst, std::fabs(cuda::widened(got[i]) - z) / (1 + std::fabs(z)));
        }
        check(worst <= (sizeof(Stored) == 8 ? 1e-14 : (sizeof(Stored) == 4 ? 1e-6 : 8e-3)), "fill of " + std::to_string(count));
    }
}

// The law's noise and rows, in place, within the float grade; nothing of the normals is left.
template <class Stored>
void l2_laplace_is_close_to_the_core(std::size_t rows, std::size_t columns) {
    const std::string what = std::to_string(rows) + " x " + std::to_string(columns) + ", item " + std::to_string(sizeof(Stored));
    const std::size_t bytes = cuda::l2_laplace_workspace_bytes(rows, columns, kDType<Stored>);
    for (const bool alone : {true, false}) {
        std::vector<Stored> x = rows_of<Stored>(rows, columns), expected(x.size());
        if (alone) hushvec::fill_noise(test_stream(), Law::l2_laplace, 0.01, view_of(expected, rows, columns));
        else hushvec::clip_and_noise(test_stream(), view_of(x, rows, columns), kClipNorm, 0.01, Law::l2_laplace, false, view_of(expected, rows, columns));
        DeviceArray<Stored> out(x);
        DeviceArray<std::byte> workspace(bytes);
        must(cuda::l2_laplace({test_stream(), nullptr}, {alone ? nullptr : out.get(), out.get(), kDType<Stored>, rows, columns}, kClipNorm, 0.01,
                              workspace.get(), nullptr),
             "l2_laplace");
        const std::vector<Stored> got = out.to_host();
        double worst = 0;
        for (std::size_t row = 0; row < rows; ++row) {
            double largest = 0, difference = 0;
            for (std::size_t i = row * columns; i < (row + 1) * columns; ++i) {
                largest = std::max(largest, std::fabs(double{cuda::widened(expected[i])}));
                difference = std::max(difference, std::fabs(double{cuda::widened(got[i])} - double{cuda::widened(expected[i])}));
            }
            worst = std::max(worst, difference / largest);
        }
        check(worst <= (sizeof(Stored) == 8 ? 1e-12 : (sizeof(Stored) == 4 ? 1e-5 : 1.6e-2)), "L2-Laplace, " + what);
        check(report_in(workspace).first_bad_row == cuda::kNoRow, "no bad row of L2-Laplace, " + what);
        const std::vector<std::byte> left = workspace.to_host();
        check(std::all_of(left.begin() + static_cast<std::ptrdiff_t>(cuda::workspace_bytes(rows, columns, kDType<Stored>)), left.end(),
                          [](std::byte byte) { return byte == std::byte{0}; }),
              "the normals are wiped, " + what);
    }
}

void bad_rows_are_reported() {
    constexpr std::size_t rows = 40, columns = 384;
    std::vector<float> x = rows_of<float>(rows, columns), zeroed = x, expected(x.size());
    std::fill_n(zeroed.begin() + 9 * columns, columns, 0.0f);
    x[9 * columns + 5] = std::numeric_limits<float>::quiet_NaN();
    hushvec::clip_and_noise(test_stream(), view_of(zeroed, rows, columns), kClipNorm, kSigma, Law::gaussian, true, view_of(expected, rows, columns));
    DeviceArray<float> on_device(x);
    DeviceArray<std::byte> workspace(cuda::workspace_bytes(rows, columns, DType::float32));
    must(cuda::clip_and_noise({test_stream(), nullptr}, {on_device.get(), on_device.get(), DType::float32, rows, columns}, kClipNorm, kSigma,
                              Law::gaussian, exact_grid(kSigma, kClipNorm), workspace.get(), nullptr),
         "clip_and_noise");
    check(report_in(workspace).first_bad_row == 9, "the bad row is reported");
    check(same_bits(on_device.to_host(), expected), "the bad row is released as zeros");

    x[31 * columns] = std::numeric_limits<float>::infinity();
    DeviceArray<float> two(x);
    must(cuda::find_bad_row({two.get(), nullptr, DType::float32, rows, columns}, workspace.get(), nullptr), "find_bad_row");
    check(report_in(workspace).first_bad_row == 9, "the first bad row is found");
    must(cuda::unit_rows({two.get(), two.get(), DType::float32, rows, columns}, workspace.get(), nullptr), "unit_rows");
    check(report_in(workspace).first_bad_row == 9, "the first bad row of unit rows");
    const std::vector<float> unit = two.to_host();
    check(std::all_of(&unit[9 * columns], &unit[10 * columns], [](float element) { return element == 0; }), "it becomes zeros");
}

DeviceArray<cuda::DeviceStream> in_memory(const KeyStream& stream) {
    cuda::DeviceStream words = {{}, stream.nonce, static_cast<std::uint64_t>(rounds_of(stream.cipher))};
    std::memcpy(words.key, stream.key, sizeof words.key);
    return DeviceArray<cuda::DeviceStream>(std::vector<cuda::DeviceStream>{words});
}

void fill_from(const cuda::NoiseSource& source, DeviceArray<float>& out, std::size_t count, void* workspace, cudaStream_t stream) {
    must(cuda::fill_noise(source, Law::gaussian, 1.0, {out.get(), DType::float32, count}, workspace, stream), "fill");
}

// Two calls from one stream in memory are the calls with its nonce and the next.
void a_stream_in_memory_advances() {
    constexpr std::size_t count = 1000;
    KeyStream stream = test_stream();
    DeviceArray<cuda::DeviceStream> memory = in_memory(stream);
    DeviceArray<std::byte> workspace(cuda::fill_workspace_bytes());
    for (int call = 0; call < 2; ++call, ++stream.nonce) {
        DeviceArray<float> from_memory(count), by_value(count);
        fill_from({KeyStream{}, memory.get()}, from_memory, count, workspace.get(), nullptr);
        fill_from({stream, nullptr}, by_value, count, nullptr, nullptr);
        check(same_bits(from_memory.to_host(), by_value.to_host()), "a stream in memory, call " + std::to_string(call));
    }
    check(memory.to_host()[0].nonce == test_stream().nonce + 2, "its nonce counts calls");
}

// Calls on several streams at once take one nonce each, in any order.
void no_nonce_is_taken_twice() {
    constexpr std::size_t count = 256, calls = 64, lanes = 8;
    DeviceArray<cuda::DeviceStream> memory = in_memory(test_stream());
    std::vector<std::unique_ptr<DeviceArray<float>>> outs;
    std::vector<std::unique_ptr<DeviceArray<std::byte>>> workspaces;
    std::vector<cudaStream_t> streams(lanes);
    for (cudaStream_t& stream : streams) must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    for (std::size_t call = 0; call < calls; ++call) {
        outs.push_back(std::make_unique<DeviceArray<float>>(count));
        workspaces.push_back(std::make_unique<DeviceArray<std::byte>>(cuda::fill_workspace_bytes()));
    }
    for (std::size_t call = 0; call < calls; ++call) {
        fill_from({KeyStream{}, memory.get()}, *outs[call], count, workspaces[call]->get(), streams[call % lanes]);
    }
    must(cudaDeviceSynchronize(), "synchronize");
    std::set<std::vector<float>> different;
    for (const auto& out : outs) different.insert(out->to_host());
    check(different.size() == calls, std::to_string(calls) + " calls on " + std::to_string(lanes) + " streams, as many noises");
    check(memory.to_host()[0].nonce == test_stream().nonce + calls, "the nonce counts calls on all streams");
    for (const cudaStream_t stream : streams) cudaStreamDestroy(stream);
}

// Rows in two parts, added in two batches: the bits of the CPU's sum, and of its release.
void sums() {
    constexpr std::size_t batch = 130, batches = 2;
    const std::vector<std::size_t> lengths = {20001, 77};
    const ExactGrid grid = exact_grid(kSigma, kClipNorm);
    ClippedSum on_host(lengths, kClipNorm, kSigma, batch * batches, Clipping::exact);
    std::vector<std::unique_ptr<DeviceArray<double>>> sums;
    for (const std::size_t length : lengths) sums.push_back(std::make_unique<DeviceArray<double>>(std::vector<double>(length)));
    DeviceArray<std::byte> scales(cuda::sum_scales_workspace_bytes(batch, lengths[0]));
    for (std::size_t number = 0; number < batches; ++number) {
        std::vector<std::vector<float>> host;
        std::vector<std::unique_ptr<DeviceArray<float>>> device;
        std::vector<MatrixView> views;
        std::vector<cuda::PartArgument> parts;
        for (const std::size_t length : lengths) {
            host.push_back(rows_of<float>(batch, length));
            for (float& element : host.back()) element /= static_cast<float>(number + 1);
            device.push_back(std::make_unique<DeviceArray<float>>(host.back()));
            views.push_back(view_of(host.back(), batch, length));
            parts.push_back({device.back()->get(), DType::float32, batch, length});
        }
        on_host.add(views);
        must(cuda::sum_scales(parts, kClipNorm, scales.get(), nullptr), "sum_scales");
        check(report_in(scales).first_bad_row == cuda::kNoRow, "no bad row of a sum");
        for (std::size_t i = 0; i < parts.size(); ++i) must(cuda::add_to_sum(parts[i], scales.get(), sums[i]->get(), nullptr), "add_to_sum");
    }
    DeviceArray<std::byte> workspace(cuda::release_sum_workspace_bytes(lengths[0]));
    for (std::size_t i = 0; i < lengths.size(); ++i) {
        check(sums[i]->to_host() == on_host.units(i), "sums, part " + std::to_string(i));
        DeviceArray<float> out(lengths[i]);
        const cuda::OutArgument samples = {out.get(), DType::float32, lengths[i]};
        must(cuda::release_sum(test_stream(), sums[i]->get(), samples, kClipNorm, grid, workspace.get(), nullptr), "release_sum");
        if (report_in(workspace).open_samples > 0) must(cuda::settle(test_stream(), samples, Law::gaussian, grid, workspace.get(), nullptr), "settle");
        std::vector<float> expected(lengths[i]);
        on_host.release(i, test_stream(), expected.data());
        check(same_bits(out.to_host(), expected), "release of a sum, part " + std::to_string(i));
    }
}

// Answers in place and apart, and the first number that is no code.
template <class Code>
void responses_equal_the_core() {
    for (const std::size_t count : {1, 255, 257, 70001}) {
        const ResponseLaw law = response_law(1.0, 100);
        std::vector<Code> codes(count), expected(count);
        for (std::size_t i = 0; i < count; ++i) codes[i] = static_cast<Code>(i * 7 % 100);
        hushvec::randomized_response(test_stream(), law, codes.data(), count, expected.data());
        DeviceArray<Code> from(codes), out(count);
        DeviceArray<std::byte> report(cuda::report_bytes());
        const std::string what = std::to_string(count) + " codes of " + std::to_string(sizeof(Code)) + " bytes";
        must(cuda::copy_codes({from.get(), out.get(), sizeof(Code), count}, 100, report.get(), nullptr), "copy_codes");
        check(report_in(report).first_bad_row == cuda::kNoRow && out.to_host() == codes, "copied, " + what);
        must(cuda::randomized_response(test_stream(), law, {out.get(), out.get(), sizeof(Code), count}, nullptr), "randomized_response");
        check(out.to_host() == expected, "answers in place, " + what);
        must(cuda::randomized_response(test_stream(), law, {from.get(), out.get(), sizeof(Code), count}, nullptr), "randomized_response");
        check(out.to_host() == expected, "answers, " + what);
        codes[count / 2] = codes[count - 1] = static_cast<Code>(-1);
        DeviceArray<Code> bad(codes);
        must(cuda::copy_codes({bad.get(), out.get(), sizeof(Code), count}, 100, report.get(), nullptr), "copy_codes");
        check(report_in(report).first_bad_row == count / 2, "the first that is no code, " + what);
    }
}

// Around the rows and codes of a block, with codes that lie close together, against the sums by definition.
template <class Stored>
void nearest_codes_are_those_of_the_definition() {
    for (const std::size_t columns : {1, 17, 100, 384}) {
        for (const std::size_t count : {1, 8, 65, 130}) {
            constexpr std::size_t rows = 19;
            const std::vector<Stored> x = rows_of<Stored>(rows, columns);
            std::vector<float> codes;
            for (std::size_t i = 0; i < count * columns; ++i) {
                codes.push_back(static_cast<float>(1 + i % columns) / static_cast<float>(columns) * (1 + static_cast<float>(i * i % 5) * 0x1p-22f));
            }
            std::vector<std::int32_t> expected;
            for (std::size_t row = 0; row < rows; ++row) {
                std::vector<float> wide, scores;
                for (std::size_t j = 0; j < columns; ++j) wide.push_back(cuda::widened(x[row * columns + j]));
                for (std::size_t c = 0; c < count; ++c) scores.push_back(by_definition(wide.data(), &codes[c * columns], columns, true));
                expected.push_back(static_cast<std::int32_t>(std::max_element(scores.begin(), scores.end()) - scores.begin()));
            }
            DeviceArray<Stored> from(x);
            DeviceArray<float> table(codes);
            DeviceArray<std::int32_t> nearest(rows);
            must(cuda::nearest_codes({from.get(), nullptr, kDType<Stored>, rows, columns}, table.get(), count, nearest.get(), nullptr), "nearest_codes");
            check(nearest.to_host() == expected, "nearest of " + std::to_string(count) + " codes of " + std::to_string(columns) + " elements");
        }
    }
}

template <class Stored>
void all_shapes() {
    for (const std::size_t columns : {1, 15, 16, 255, 256, 257, 384, 768, 1024, 1536, 30001}) {
        rows_equal_the_core<Stored>(columns < 1000 ? 70 : 9, columns);
        privunit_equals_the_core<Stored>(columns < 1000 ? 70 : 9, columns);
    }
    for (const std::size_t columns : {1, 33, 256, 1000}) l2_laplace_is_close_to_the_core<Stored>(37, columns);
    for (const std::size_t count : {1, 255, 256, 257, 70001}) fills_are_close_to_the_core<Stored>(count);
}

// int8 releases, by whole numbers in x's dtype, which the last kernel saturates.
template <class Stored>
void int8_values_equal_the_core(std::size_t rows, std::size_t columns) {
    const std::string what = std::to_string(rows) + " x " + std::to_string(columns) + ", item " + std::to_string(sizeof(Stored));
    const std::size_t count = rows * columns;
    std::vector<Stored> x = rows_of<Stored>(rows, columns);
    std::vector<std::int8_t> expected(count);
    const MatrixView integers = {reinterpret_cast<std::byte*>(expected.data()), DType::int8, rows, columns, static_cast<std::ptrdiff_t>(columns), 1};
    DeviceArray<Stored> numbers(x);
    DeviceArray<std::int8_t> out(count);
    const cuda::RowsArgument argument = {numbers.get(), numbers.get(), kDType<Stored>, rows, columns};
    const cuda::OutArgument samples = {numbers.get(), kDType<Stored>, count};

    hushvec::clip_and_noise(test_stream(), view_of(x, rows, columns), kClipNorm, kSigma, Law::gaussian, true, integers);
    const ExactGrid grid = int8_grid(kSigma, kClipNorm);
    DeviceArray<std::byte> workspace(cuda::workspace_bytes(rows, columns, kDType<Stored>));
    must(cuda::clip_and_noise({test_stream(), nullptr}, argument, kClipNorm, kSigma, Law::gaussian, grid, workspace.get(), nullptr, true), "clip_and_noise");
    if (report_in(workspace).open_samples > 0) must(cuda::settle(test_stream(), samples, Law::gaussian, in_grid_units(grid), workspace.get(), nullptr), "settle");
    must(cuda::int8_values(samples, out.get(), nullptr), "int8_values");
    check(out.to_host() == expected, "int8 values, " + what);

    const PrivUnitLaw law = privunit_law(6.0);
    hushvec::privunit(test_stream(), view_of(x, rows, columns), law, kSigma, integers);
    DeviceArray<Stored> directions(x);
    const cuda::RowsArgument rows_of_directions = {directions.get(), numbers.get(), kDType<Stored>, rows, columns};
    const ExactGrid units = in_grid_units(privunit_int8_grid(kSigma, law.threshold));
    DeviceArray<std::byte> memory(cuda::privunit_workspace_bytes(rows, columns, kDType<Stored>));
    must(cuda::privunit(test_stream(), rows_of_directions, law, units, memory.get(), nullptr), "privunit");
    must(cuda::settle_privunit(test_stream(), rows_of_directions, law, units, report_in(memory), memory.get(), nullptr), "settle_privunit");
    must(cuda::int8_values(samples, out.get(), nullptr), "int8_values");
    check(out.to_host() == expected, "int8 values of privunit, " + what);
}

template <class Stored>
void int8_values_saturate() {
    std::vector<Stored> numbers;
    std::vector<std::int8_t> expected;
    for (int n = -600; n <= 600; ++n) {
        numbers.push_back(narrowed<Stored>(static_cast<Wide<Stored>>(n)));
        expected.push_back(static_cast<std::int8_t>(std::clamp(n, -127, 127)));
    }
    DeviceArray<Stored> from(numbers);
    DeviceArray<std::int8_t> out(numbers.size());
    must(cuda::int8_values({from.get(), kDType<Stored>, numbers.size()}, out.get(), nullptr), "int8_values");
    check(out.to_host() == expected, "int8 values saturate, item " + std::to_string(sizeof(Stored)));
}

template <class Stored>
void int8_values() {
    for (const std::size_t columns : {1, 257, 384, 1000}) int8_values_equal_the_core<Stored>(37, columns);
    int8_values_saturate<Stored>();
}

}  // namespace

int main() {
    int devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&devices);
    if (error != cudaSuccess || devices == 0) {
        std::printf("no CUDA device: %s\n", cudaGetErrorString(error));
        return 77;
    }
    all_shapes<float>();
    all_shapes<double>();
    all_shapes<Float16>();
    all_shapes<Bfloat16>();
    bad_rows_are_reported();
    a_stream_in_memory_advances();
    no_nonce_is_taken_twice();
    sums();
    nearest_codes_are_those_of_the_definition<float>();
    nearest_codes_are_those_of_the_definition<Float16>();
    nearest_codes_are_those_of_the_definition<Bfloat16>();
    responses_equal_the_core<std::int8_t>();
    responses_equal_the_core<std::int16_t>();
    responses_equal_the_core<std::int32_t>();
    responses_equal_the_core<std::int64_t>();
    int8_values<float>();
    int8_values<double>();
    int8_values<Float16>();
    int8_values<Bfloat16>();
    return test::summary();
}
