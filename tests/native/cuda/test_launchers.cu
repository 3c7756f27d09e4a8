// Every launcher on a device, at awkward sizes, held against the CPU core: the same bits in the exact grade.
// Small enough for compute-sanitizer. Needs a device: prints why and exits 77 without one. Runs the cases that it is called with, or all.
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
#include "device/settled_output.hpp"
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
#include "noise/combination.hpp"
#include "noise/ladder_first_step.hpp"
#include "plain_products.hpp"
#include "workspace.hpp"

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

DeviceArray<std::byte> zeros(std::size_t bytes) { return DeviceArray<std::byte>(std::vector<std::byte>(bytes)); }

// Whether a workspace that was zeros holds nothing of the noise from `begin` on.
bool is_wiped(const DeviceArray<std::byte>& workspace, std::size_t begin, std::size_t end) {
    const std::vector<std::byte> left = workspace.to_host();
    return std::all_of(left.begin() + static_cast<std::ptrdiff_t>(begin), left.begin() + static_cast<std::ptrdiff_t>(end),
                       [](std::byte byte) { return byte == std::byte{0}; });
}

// The lists of what an exact call on rows, or the release of a sum, left open.
bool row_lists_are_wiped(const DeviceArray<std::byte>& workspace, std::size_t samples) {
    const cuda::PairCapacity capacity = {cuda::open_row_pair_capacity(samples)};
    return is_wiped(workspace, cuda::Workspace::kHeaderBytes, cuda::Workspace::fixed_bytes(capacity));
}

// The same where nothing is of version 3.
bool lists_are_wiped(const DeviceArray<std::byte>& workspace, std::size_t samples) {
    return is_wiped(workspace, cuda::Workspace::kHeaderBytes, cuda::Workspace::fixed_bytes(samples));
}

// The same words through other logarithms and sines: last places may differ.
template <class Stored>
bool close_in_the_float_grade(const std::vector<Stored>& got, const std::vector<Stored>& expected) {
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double y = cuda::widened(expected[i]);
        worst = std::max(worst, std::fabs(cuda::widened(got[i]) - y) / (1 + std::fabs(y)));
    }
    return worst <= (sizeof(Stored) == 8 ? 1e-14 : (sizeof(Stored) == 4 ? 1e-6 : 8e-3));
}

template <class Stored>
void rows_equal_the_core(std::size_t rows, std::size_t columns) {
    const ExactGrid grid = exact_grid(kSigma, kClipNorm);
    const std::string what = std::to_string(rows) + " x " + std::to_string(columns) + ", item " + std::to_string(sizeof(Stored));
    for (const Law law : {Law::gaussian, Law::laplacian}) {
        std::vector<Stored> x = rows_of<Stored>(rows, columns), expected(x.size());
        hushvec::clip_and_noise(test_stream(), view_of(x, rows, columns), kClipNorm, kSigma, law, true, view_of(expected, rows, columns));
        DeviceArray<Stored> in_place(x);
        DeviceArray<std::byte> workspace = zeros(cuda::workspace_bytes(rows, columns, kDType<Stored>));
        const cuda::NoiseSource source = {test_stream(), nullptr};
        must(cuda::clip_and_noise(source, {in_place.get(), in_place.get(), kDType<Stored>, rows, columns}, kClipNorm, kSigma, law, grid,
                                  workspace.get(), nullptr),
             "clip_and_noise");
        if (report_in(workspace).open_samples > 0) must(cuda::settle(source.stream, {in_place.get(), kDType<Stored>, rows * columns}, law, grid, workspace.get(), nullptr), "settle");
        check(same_bits(in_place.to_host(), expected), "exact, " + what);
        check(report_in(workspace).first_bad_row == cuda::kNoRow, "no bad row, " + what);
        check(row_lists_are_wiped(workspace, rows * columns), "open samples are wiped, " + what);

        DeviceArray<Stored> again(x);
        must(cuda::clip_and_noise(source, {again.get(), again.get(), kDType<Stored>, rows, columns}, kClipNorm, kSigma, law, {0, 0},
                                  workspace.get(), nullptr),
             "float grade");
        hushvec::clip_and_noise(test_stream(), view_of(x, rows, columns), kClipNorm, kSigma, law, false, view_of(expected, rows, columns));
        check(close_in_the_float_grade(again.to_host(), expected), "float grade, " + what);
    }
}

KeyStream half_word_stream(Cipher cipher) {
    KeyStream stream = test_stream(cipher);
    stream.half_words = true;
    return stream;
}

// Exact noise of version 3, in place.
template <class Stored>
void half_words_equal_the_core(std::size_t rows, std::size_t columns, Cipher cipher, double sigma = kSigma) {
    const ExactGrid grid = exact_grid(sigma, kClipNorm, true);
    const std::string what = "version 3, " + std::to_string(rows) + " x " + std::to_string(columns) + ", " + name_of(kDType<Stored>) + ", " +
                             hushvec::name_of(cipher) + ", sigma " + std::to_string(sigma);
    const cuda::NoiseSource source = {half_word_stream(cipher), nullptr};
    for (const Law law : {Law::gaussian, Law::laplacian}) {
        std::vector<Stored> x = rows_of<Stored>(rows, columns), expected(x.size());
        hushvec::clip_and_noise(source.stream, view_of(x, rows, columns), kClipNorm, sigma, law, true, view_of(expected, rows, columns));
        DeviceArray<Stored> in_place(x);
        DeviceArray<std::byte> workspace = zeros(cuda::workspace_bytes(rows, columns, kDType<Stored>));
        const cuda::RowsArgument argument = {in_place.get(), in_place.get(), kDType<Stored>, rows, columns};
        const cuda::OutArgument out = {in_place.get(), kDType<Stored>, rows * columns};
        must(cuda::clip_and_noise(source, argument, kClipNorm, sigma, law, grid, workspace.get(), nullptr), "clip_and_noise");
        if (report_in(workspace).open_samples > 0) must(cuda::settle(source.stream, out, law, grid, workspace.get(), nullptr), "settle");
        check(same_bits(in_place.to_host(), expected), what);
        check(report_in(workspace).first_bad_row == cuda::kNoRow && report_in(workspace).overflow == 0, "report, " + what);
        check(row_lists_are_wiped(workspace, rows * columns), "open pairs are wiped, " + what);
    }
}

// A grid that level 0 is not for leaves every pair open. Neither a tile nor a whole call has room for all of them, and says so.
void lists_of_half_words_overflow() {
    for (const auto& [rows, columns] : {std::pair<std::size_t, std::size_t>{16, 384}, {1, 50001}}) {
        const std::vector<float> x = rows_of<float>(rows, columns);
        for (const Law law : {Law::gaussian, Law::laplacian}) {
            DeviceArray<float> out(x);
            DeviceArray<std::byte> workspace = zeros(cuda::workspace_bytes(rows, columns, DType::float32));
            const cuda::NoiseSource source = {half_word_stream(Cipher::chacha12), nullptr};
            const cuda::RowsArgument argument = {out.get(), out.get(), DType::float32, rows, columns};
            must(cuda::clip_and_noise(source, argument, kClipNorm, kSigma, law, {0.3f, 0x1p-20f}, workspace.get(), nullptr), "clip_and_noise");
            check(report_in(workspace).overflow == 1, "a list of version 3 that overflows says so, " + std::to_string(columns));
            check(row_lists_are_wiped(workspace, rows * columns), "and is wiped, " + std::to_string(columns));
        }
    }
}

template <class Stored>
void clips_equal_the_core(std::size_t rows, std::size_t columns) {
    const std::string what = std::to_string(rows) + " x " + std::to_string(columns) + ", item " + std::to_string(sizeof(Stored));
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
    const std::size_t bytes = cuda::privunit_workspace_bytes(rows, columns, kDType<Stored>);
    DeviceArray<std::byte> workspace = zeros(bytes);
    const cuda::RowsArgument argument = {in_place.get(), in_place.get(), kDType<Stored>, rows, columns};
    must(cuda::privunit(test_stream(), argument, law, grid, workspace.get(), nullptr), "privunit");
    const cuda::Report report = report_in(workspace);
    check(report.first_bad_row == cuda::kNoRow && report.overflow == 0, "report of privunit, " + what);
    must(cuda::settle_privunit(test_stream(), argument, law, grid, report, workspace.get(), nullptr), "settle_privunit");
    check(same_bits(in_place.to_host(), expected), "privunit, " + what);
    check(is_wiped(workspace, cuda::aligned_bytes(sizeof(cuda::Report)), bytes), "the workspace of privunit is wiped, " + what);
}

template <class Stored>
void fills_are_close_to_the_core(std::size_t count) {
    for (const Law law : {Law::gaussian, Law::laplacian}) {
        std::vector<Stored> expected(count);
        hushvec::fill_noise(test_stream(), law, 2.5, view_of(expected, 1, count));
        DeviceArray<Stored> out(count);
        must(cuda::fill_noise({test_stream(), nullptr}, law, 2.5, {out.get(), kDType<Stored>, count}, nullptr, nullptr), "fill");
        check(close_in_the_float_grade(out.to_host(), expected), "fill of " + std::to_string(count));
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
        check(is_wiped(workspace, cuda::workspace_bytes(rows, columns, kDType<Stored>), bytes), "the normals are wiped, " + what);
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

// Rows that draw from a state are of version 1.
void rows_from_memory_are_of_version_1() {
    constexpr std::size_t rows = 9, columns = 768;
    std::vector<float> x = rows_of<float>(rows, columns), expected(x.size());
    hushvec::clip_and_noise(test_stream(), view_of(x, rows, columns), kClipNorm, kSigma, Law::gaussian, true, view_of(expected, rows, columns));
    DeviceArray<cuda::DeviceStream> memory = in_memory(test_stream());
    DeviceArray<float> out(x);
    DeviceArray<std::byte> workspace(cuda::workspace_bytes(rows, columns, DType::float32));
    const cuda::NoiseSource source = {half_word_stream(Cipher::chacha20), memory.get()};
    const cuda::RowsArgument argument = {out.get(), out.get(), DType::float32, rows, columns};
    const ExactGrid grid = exact_grid(kSigma, kClipNorm);
    must(cuda::clip_and_noise(source, argument, kClipNorm, kSigma, Law::gaussian, grid, workspace.get(), nullptr), "clip_and_noise");
    check(same_bits(out.to_host(), expected), "rows from a stream in memory are of version 1");
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

struct PartShape {
    DType dtype;
    std::size_t columns;
};

// One part of a batch of rows, on both sides.
class PartRows {
public:
    // Element i is factor(i) times that of rows_of.
    template <class Factor>
    PartRows(const PartShape& shape, std::size_t rows, Factor factor) : host_(elements(shape, rows, factor)), device_(host_), rows_(rows), shape_(shape) {}

    MatrixView view() {
        const auto item = static_cast<std::ptrdiff_t>(item_size(shape_.dtype));
        return {host_.data(), shape_.dtype, rows_, shape_.columns, item * static_cast<std::ptrdiff_t>(shape_.columns), item};
    }
    cuda::PartArgument argument() { return {device_.get(), shape_.dtype, rows_, shape_.columns}; }

private:
    template <class Factor>
    static std::vector<std::byte> elements(const PartShape& shape, std::size_t rows, Factor factor) {
        return cuda::with_stored_type(shape.dtype, [&]<class Stored>(Stored) {
            std::vector<Stored> x = rows_of<Stored>(rows, shape.columns);
            for (std::size_t i = 0; i < x.size(); ++i) {
                x[i] = narrowed<Stored>(static_cast<Wide<Stored>>(cuda::widened(x[i]) * factor(i, sizeof(Stored))));
            }
            std::vector<std::byte> bytes(x.size() * sizeof(Stored));
            if (!x.empty()) std::memcpy(bytes.data(), x.data(), bytes.size());
            return bytes;
        });
    }

    std::vector<std::byte> host_;
    DeviceArray<std::byte> device_;
    std::size_t rows_;
    PartShape shape_;
};

// The sums of a row's parts on a device, and what they are released to.
struct PartSums {
    std::vector<std::unique_ptr<DeviceArray<double>>> sums;
    std::vector<std::unique_ptr<DeviceArray<float>>> out;
    std::vector<cuda::SumArgument> arguments;
    std::size_t samples = 0, even_samples = 0;   // of whole groups, and of an even number of them

    explicit PartSums(const std::vector<PartShape>& shapes) {
        for (const PartShape& shape : shapes) {
            sums.push_back(std::make_unique<DeviceArray<double>>(std::vector<double>(shape.columns)));
            out.push_back(std::make_unique<DeviceArray<float>>(std::vector<float>(shape.columns)));
            arguments.push_back({sums.back()->get(), out.back()->get(), shape.columns});
            samples += (shape.columns + kGroupSamples - 1) / kGroupSamples * kGroupSamples;
            even_samples += (shape.columns + 2 * kGroupSamples - 1) / (2 * kGroupSamples) * (2 * kGroupSamples);
        }
    }
};

KeyStream stream_of_part(std::size_t part, bool half_words) {
    KeyStream stream = test_stream();
    stream.nonce += part;
    stream.half_words = half_words;
    return stream;
}

// Rows in parts, added in two batches: the bits of the CPU's sum, and of its release. `huge` rows of float64 have squares that overflow.
void sums_equal_the_core(const std::string& name, const std::vector<PartShape>& shapes, std::size_t batch, bool huge = false) {
    constexpr std::size_t batches = 2;
    std::vector<std::size_t> lengths;
    for (const PartShape& shape : shapes) lengths.push_back(shape.columns);
    ClippedSum on_host(lengths, kClipNorm, kSigma, batch * batches, Clipping::exact);
    PartSums on_device(shapes);
    for (std::size_t number = 0; number < batches; ++number) {
        std::vector<std::unique_ptr<PartRows>> rows;
        std::vector<MatrixView> views;
        std::vector<cuda::PartArgument> parts;
        for (const PartShape& shape : shapes) {
            rows.push_back(std::make_unique<PartRows>(shape, batch, [&](std::size_t i, std::size_t item) {
                const bool overflows = huge && item == sizeof(double) && i / shape.columns % 4 == 1;
                return std::ldexp(1.0 / static_cast<double>(number + 1), overflows ? 1000 : 0);
            }));
            views.push_back(rows.back()->view());
            parts.push_back(rows.back()->argument());
        }
        on_host.add(views);
        DeviceArray<std::byte> scales(cuda::sum_scales_workspace_bytes(parts));
        must(cuda::sum_scales(parts, kClipNorm, scales.get(), nullptr), "sum_scales");
        check(report_in(scales).first_bad_row == cuda::kNoRow, "no bad row of a sum, " + name);
        for (std::size_t i = 0; i < parts.size(); ++i) must(cuda::add_to_sum(parts[i], scales.get(), on_device.sums[i]->get(), nullptr), "add_to_sum");
    }
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        check(on_device.sums[i]->to_host() == on_host.units(i), "sums, part " + std::to_string(i) + ", " + name);
    }
    for (const bool half_words : {false, true}) {
        const std::string what = name + (half_words ? ", version 3" : "");
        const KeyStream stream = stream_of_part(0, half_words);
        const ExactGrid grid = exact_grid(kSigma, kClipNorm, half_words);
        DeviceArray<std::byte> workspace = zeros(cuda::release_sums_workspace_bytes(on_device.arguments));
        must(cuda::release_sums(stream, on_device.arguments, kClipNorm, grid, workspace.get(), nullptr), "release_sums");
        if (report_in(workspace).open_samples > 0) must(cuda::settle_sums(stream, on_device.arguments, grid, workspace.get(), nullptr), "settle_sums");
        check(report_in(workspace).overflow == 0, "no overflow, " + what);
        check(row_lists_are_wiped(workspace, on_device.even_samples), "open samples of a sum are wiped, " + what);
        for (std::size_t i = 0; i < shapes.size(); ++i) {
            std::vector<float> expected(lengths[i]);
            on_host.release(i, stream_of_part(i, half_words), expected.data());
            check(same_bits(on_device.out[i]->to_host(), expected), "release of a sum, part " + std::to_string(i) + ", " + what);
        }
    }
}

// NaN in the first part, which is not the last that has a say.
void a_bad_row_of_a_sum(DType other) {
    constexpr std::size_t rows = 70;
    PartRows first({DType::float32, 300}, rows, [](std::size_t i, std::size_t) { return i == 41 * 300 ? std::numeric_limits<double>::quiet_NaN() : 1.0; });
    PartRows second({other, 40}, rows, [](std::size_t, std::size_t) { return 1.0; });
    const std::vector<cuda::PartArgument> parts = {first.argument(), second.argument()};
    DeviceArray<std::byte> scales(cuda::sum_scales_workspace_bytes(parts));
    must(cuda::sum_scales(parts, kClipNorm, scales.get(), nullptr), "sum_scales");
    check(report_in(scales).first_bad_row == 41, std::string("the bad row of a sum beside ") + name_of(other));
}

// More rows than two dimensions of blocks have room for, and none.
void sums_of_any_number_of_rows() {
    constexpr std::size_t rows = 65535 * 64 + 1;
    DeviceArray<float> x(std::vector<float>(rows, 1.0f));
    DeviceArray<double> sum(std::vector<double>(1));
    const cuda::PartArgument part = {x.get(), DType::float32, rows, 1};
    std::vector<std::byte> memory(cuda::sum_scales_workspace_bytes({&part, 1}));
    const std::vector<float> scales(rows, 3.5f);
    std::memcpy(memory.data() + cuda::Workspace::kHeaderBytes, scales.data(), rows * sizeof(float));
    DeviceArray<std::byte> workspace(memory);
    must(cuda::add_to_sum(part, workspace.get(), sum.get(), nullptr), "add_to_sum of many rows");
    check(sum.to_host() == std::vector<double>{3.0 * rows}, "the sum of many rows");

    const cuda::PartArgument none = {nullptr, DType::float32, 0, 5};
    DeviceArray<std::byte> report(cuda::sum_scales_workspace_bytes({&none, 1}));
    must(cuda::sum_scales({&none, 1}, kClipNorm, report.get(), nullptr), "sum_scales of no rows");
    check(report_in(report).first_bad_row == cuda::kNoRow, "no rows, none bad");
    must(cuda::add_to_sum(none, report.get(), sum.get(), nullptr), "add_to_sum of no rows");
    check(sum.to_host() == std::vector<double>{3.0 * rows}, "no rows add nothing");
}

void sums() {
    using enum DType;
    sums_equal_the_core("float32", {{float32, 20001}, {float32, 77}}, 130);
    sums_equal_the_core("16 bits", {{float16, 300}, {bfloat16, 8193}, {float32, 0}, {float32, 5}, {float16, 1}}, 67);
    sums_equal_the_core("float64 alone", {{float64, 8500}}, 9);
    sums_equal_the_core("float64 beside others", {{float32, 0}, {float64, 700}, {float32, 300}, {bfloat16, 40}}, 67);
    sums_equal_the_core("huge float64", {{float16, 30}, {float64, 8500}, {float32, 8200}}, 9, true);
    std::vector<PartShape> many;
    for (std::size_t i = 0; i < 60; ++i) many.push_back({float32, i * 37 % 600});
    sums_equal_the_core("many parts", many, 3);
    sums_equal_the_core("no columns", {{float32, 0}}, 3);
    a_bad_row_of_a_sum(float32);
    a_bad_row_of_a_sum(float64);
    sums_of_any_number_of_rows();
}

// Streams of the last steps of a run, newest first, with keys of their own in turn.
struct Steps {
    std::vector<KeyStream> streams;
    std::vector<NoiseTerm> terms;

    Steps(const std::vector<float>& coefficients, Cipher cipher) {
        for (std::size_t i = 0; i < coefficients.size(); ++i) {
            KeyStream& stream = streams.emplace_back(test_stream());
            stream.nonce += 100 - i;
            stream.key[3] += static_cast<std::uint32_t>(i % 2);
            stream.cipher = cipher;
        }
        for (std::size_t i = 0; i < coefficients.size(); ++i) terms.push_back({&streams[i], coefficients[i]});
    }
};

// 1, and p - 1 of both signs that get smaller.
std::vector<float> coefficients_of(std::size_t p) {
    std::vector<float> coefficients = {1.0f};
    for (std::size_t i = 1; i < p; ++i) coefficients.push_back((i % 3 == 0 ? 0.71f : -0.71f) / static_cast<float>(i));
    return coefficients;
}

// Sums of every size up to `largest` grids, of both signs.
void correlated_releases_equal_the_core(const std::vector<PartShape>& shapes, const std::vector<float>& coefficients, Cipher cipher, double sigma, double largest) {
    const std::string what = std::to_string(coefficients.size()) + " streams of " + name_of(cipher) + ", sigma " + std::to_string(sigma) + ", " + std::to_string(shapes.size()) + " parts";
    const Steps steps(coefficients, cipher);
    const ExactGrid grid = exact_grid(sigma, kClipNorm);
    const double largest_sum = largest * double{grid.grid} / sum_unit(kClipNorm);
    const std::size_t rows = static_cast<std::size_t>(std::ldexp(largest_sum, -25)) + 1;
    std::vector<std::size_t> lengths;
    std::vector<std::vector<double>> units;
    for (const PartShape& shape : shapes) {
        lengths.push_back(shape.columns);
        std::vector<double>& part = units.emplace_back(shape.columns);
        for (std::size_t i = 0; i < part.size(); ++i) part[i] = std::rint(largest_sum * std::ldexp(std::sin(static_cast<double>(i * i + shapes.size())), -static_cast<int>(i % 5 * 5)));
    }
    ClippedSum on_host(lengths, kClipNorm, sigma, rows, Clipping::exact);
    on_host.replace(rows, units);
    PartSums on_device(shapes);
    for (std::size_t i = 0; i < units.size(); ++i) {
        must(cudaMemcpy(on_device.sums[i]->get(), units[i].data(), units[i].size() * sizeof(double), cudaMemcpyHostToDevice), "copy sums");
    }
    DeviceArray<std::byte> workspace = zeros(cuda::release_correlated_workspace_bytes(coefficients, on_device.arguments));
    must(cuda::release_correlated(steps.terms, on_device.arguments, kClipNorm, grid, workspace.get(), nullptr), "release_correlated");
    const cuda::Report report = report_in(workspace);
    check(report.overflow == 0, "no overflow, " + what);
    if (report.open_samples > 0) must(cuda::settle_correlated(steps.terms, on_device.arguments, grid, workspace.get(), nullptr), "settle_correlated");
    double size = 0;
    for (const float coefficient : coefficients) size += std::fabs(double{coefficient});
    const std::size_t capacity = cuda::open_pair_capacity(on_device.samples, coefficients.size(), size);
    check(is_wiped(workspace, cuda::Workspace::kHeaderBytes, cuda::Workspace::fixed_bytes(cuda::PairCapacity{capacity})), "open samples are wiped, " + what);
    std::uint64_t first_group = 0;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        std::vector<float> expected(lengths[i]);
        on_host.release(i, steps.terms, first_group, expected.data());
        check(same_bits(on_device.out[i]->to_host(), expected), "correlated release, part " + std::to_string(i) + ", " + what);
        first_group += (lengths[i] + kGroupSamples - 1) / kGroupSamples;
    }
}

void correlated_sums() {
    using enum DType;
    const double small = 5000, most = 0x1.fffp20;
    for (const std::size_t p : {1, 2, 4, 8, 16}) {
        correlated_releases_equal_the_core({{float32, 20001}, {float32, 77}}, coefficients_of(p), Cipher::chacha12, kSigma, small);
        correlated_releases_equal_the_core({{float32, 300}, {float32, 0}, {float32, 1}, {float32, 513}}, coefficients_of(p), Cipher::chacha20, 0.001, 2);
        correlated_releases_equal_the_core({{float32, 3000}}, coefficients_of(p), Cipher::chacha8, 100, most);   // beyond 32 bits
    }
    correlated_releases_equal_the_core({{float32, 700}}, coefficients_of(32), Cipher::chacha8, kSigma, small);
    correlated_releases_equal_the_core({{float32, 700}}, std::vector<float>(16, -1.0f), Cipher::chacha8, kSigma, small);
    correlated_releases_equal_the_core({{float32, 700}}, {1.0f, 0.0f, 1e-30f, -1e-44f}, Cipher::chacha8, kSigma, small);
    correlated_releases_equal_the_core({{float32, 700}}, {1e-20f}, Cipher::chacha8, kSigma, small);
    correlated_releases_equal_the_core({{float32, 0}}, {1.0f, -0.5f}, Cipher::chacha8, kSigma, small);
}

// Samples that no float64 settles are one in 10^13, so they are forged: what a call would have listed is put into its workspace. Tie or not,
// each has the answer of the host's first step.
class ForgedSamples {
public:
    ForgedSamples(const cuda::Workspace& workspace, ExactGrid grid) : workspace_(workspace), grid_(grid) {}

    // Sample or pair `index` of the output, `first` more in the list. Returns the place of its answer and the answer.
    std::pair<std::size_t, float> add(Law law, std::uint64_t index, std::uint64_t first, const KeyStream& stream) {
        const auto number = static_cast<std::uint32_t>(list_.size());
        const cuda::OpenSample sample = {2.25 + 1000.0 * number / 7, first + index, number * 0x9E3779B9u, ~number * 0x85EBCA6Bu, law == Law::gaussian ? number % 2 : 0};
        list_.push_back(sample);
        const float s = grid_.sigma / grid_.grid;
        const Block extension = cuda::extension_block(stream, index);
        const bool sine = sample.sine != 0;
        const std::int32_t n = law == Law::gaussian
                                   ? settle_first_step(GaussianWord{index, sample.first_word, sample.second_word, sine}, extension, sample.x, s).index
                                   : settle_first_step(LaplaceWord{index, sample.first_word}, extension, sample.x, s).index;
        return {law == Law::gaussian ? cuda::sample_of_pair(index, sine) : index, static_cast<float>(n) * grid_.grid};
    }

    void list() const {
        const auto count = static_cast<std::uint32_t>(list_.size());
        must(cudaMemcpy(workspace_.samples, list_.data(), count * sizeof list_[0], cudaMemcpyHostToDevice), "list samples");
        must(cudaMemcpy(&workspace_.header->report.open_samples, &count, sizeof count, cudaMemcpyHostToDevice), "count samples");
    }

private:
    cuda::Workspace workspace_;
    ExactGrid grid_;
    std::vector<cuda::OpenSample> list_;
};

template <class Stored>
void listed_samples_are_settled() {
    constexpr std::size_t count = 5000;
    const ExactGrid grid = exact_grid(kSigma, kClipNorm);
    for (const Law law : {Law::gaussian, Law::laplacian}) {
        std::vector<Stored> expected(count);
        DeviceArray<Stored> out(expected);
        DeviceArray<std::byte> workspace = zeros(cuda::workspace_bytes(1, count, kDType<Stored>));
        ForgedSamples forged(cuda::Workspace(workspace.get(), count), grid);
        for (std::size_t i = 0; i < 50; ++i) {
            const auto [place, answer] = forged.add(law, i * 37, 0, test_stream());
            expected[place] = narrowed<Stored>(answer);
        }
        forged.list();
        must(cuda::settle(test_stream(), {out.get(), kDType<Stored>, count}, law, grid, workspace.get(), nullptr), "settle");
        check(same_bits(out.to_host(), expected), "listed samples of " + std::string(name_of(kDType<Stored>)));
        check(lists_are_wiped(workspace, count), "listed samples are wiped");
    }
}

void listed_samples_of_sums_are_settled(bool half_words) {
    const std::vector<PartShape> shapes = {{DType::float32, 300}, {DType::float32, 0}, {DType::float32, 5}, {DType::float32, 1000}};
    const KeyStream stream = stream_of_part(0, half_words);
    const ExactGrid grid = exact_grid(kSigma, kClipNorm, half_words);
    PartSums sums(shapes);
    DeviceArray<std::byte> workspace = zeros(cuda::release_sums_workspace_bytes(sums.arguments));
    must(cuda::release_sums(stream, sums.arguments, kClipNorm, grid, workspace.get(), nullptr), "release_sums");
    std::vector<std::vector<float>> expected;
    for (const auto& out : sums.out) expected.push_back(out->to_host());
    ForgedSamples forged(cuda::Workspace(workspace.get(), cuda::PairCapacity{cuda::open_row_pair_capacity(sums.even_samples)}), grid);
    std::uint64_t first_pair = 0;
    for (std::size_t part = 0; part < shapes.size(); ++part) {
        const std::size_t groups = (shapes[part].columns + 2 * kGroupSamples - 1) / (2 * kGroupSamples) * 2;
        for (std::uint64_t pair = 0; pair < groups * kGroupPairs; pair += 3) {
            const auto [place, answer] = forged.add(Law::gaussian, pair, first_pair, stream_of_part(part, half_words));
            if (place < shapes[part].columns) expected[part][place] = answer;
        }
        first_pair += groups * kGroupPairs;
    }
    forged.list();
    must(cuda::settle_sums(stream, sums.arguments, grid, workspace.get(), nullptr), "settle_sums");
    for (std::size_t part = 0; part < shapes.size(); ++part) {
        check(same_bits(sums.out[part]->to_host(), expected[part]), "listed samples of part " + std::to_string(part));
    }
    check(row_lists_are_wiped(workspace, sums.even_samples), "listed samples of a sum are wiped");
}

// The last level alone, for every third sample of a release: what the others have written is what it writes.
void listed_samples_of_correlated_sums_are_settled() {
    const std::vector<PartShape> shapes = {{DType::float32, 300}, {DType::float32, 0}, {DType::float32, 5}, {DType::float32, 1000}};
    const std::vector<float> coefficients = coefficients_of(4);
    const Steps steps(coefficients, Cipher::chacha12);
    const ExactGrid grid = exact_grid(kSigma, kClipNorm);
    PartSums sums(shapes);
    DeviceArray<std::byte> workspace = zeros(cuda::release_correlated_workspace_bytes(coefficients, sums.arguments));
    must(cuda::release_correlated(steps.terms, sums.arguments, kClipNorm, grid, workspace.get(), nullptr), "release_correlated");
    std::vector<std::vector<float>> expected;
    std::vector<cuda::OpenSample> list;
    std::uint64_t first_pair = 0;
    for (std::size_t part = 0; part < shapes.size(); ++part) {
        std::vector<float> wanted = sums.out[part]->to_host(), without = wanted;
        const std::size_t groups = (shapes[part].columns + kGroupSamples - 1) / kGroupSamples;
        for (std::uint64_t pair = 0; pair < groups * kGroupPairs; pair += 3) {
            const std::uint64_t sine = pair % 2, place = cuda::sample_of_pair(pair, sine != 0);
            const double x = 2.25 + 1000.0 * static_cast<double>(list.size()) / 7;
            list.push_back({x, first_pair + pair, 0, 0, sine});
            if (place >= shapes[part].columns) continue;
            std::vector<ScaledStream> scaled;
            for (std::size_t i = 0; i < coefficients.size(); ++i) scaled.push_back({&steps.streams[i], double{grid.sigma / grid.grid} * double{coefficients[i]}});
            wanted[place] = grid.grid * static_cast<float>(settle_combination(scaled, first_pair + pair, sine != 0, x));
            check(wanted[place] != without[place], "another sample than before");
        }
        first_pair += groups * kGroupPairs;
        expected.push_back(wanted);
    }
    double size = 0;
    for (const float coefficient : coefficients) size += std::fabs(double{coefficient});
    const cuda::Workspace at(workspace.get(), cuda::PairCapacity{cuda::open_pair_capacity(sums.samples, coefficients.size(), size)});
    const auto count = static_cast<std::uint32_t>(list.size());
    must(cudaMemcpy(at.samples, list.data(), count * sizeof list[0], cudaMemcpyHostToDevice), "list samples");
    must(cudaMemcpy(&at.header->report.open_samples, &count, sizeof count, cudaMemcpyHostToDevice), "count samples");
    must(cuda::settle_correlated(steps.terms, sums.arguments, grid, workspace.get(), nullptr), "settle_correlated");
    for (std::size_t part = 0; part < shapes.size(); ++part) {
        check(same_bits(sums.out[part]->to_host(), expected[part]), "listed samples of correlated part " + std::to_string(part));
    }
    check(is_wiped(workspace, cuda::Workspace::kHeaderBytes, cuda::Workspace::kHeaderBytes + cuda::Workspace::kSampleBytes), "listed samples of a correlated sum are wiped");
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
    const cuda::OutArgument samples = {numbers.get(), kDType<Stored>, count};

    const ExactGrid grid = int8_grid(kSigma, kClipNorm);
    DeviceArray<std::byte> workspace(cuda::workspace_bytes(rows, columns, kDType<Stored>));
    for (const KeyStream& stream : {test_stream(), half_word_stream(Cipher::chacha20)}) {
        hushvec::clip_and_noise(stream, view_of(x, rows, columns), kClipNorm, kSigma, Law::gaussian, true, integers);
        DeviceArray<Stored> in_place(x);
        const cuda::RowsArgument argument = {in_place.get(), in_place.get(), kDType<Stored>, rows, columns};
        const cuda::OutArgument noised = {in_place.get(), kDType<Stored>, count};
        const Law law = Law::gaussian;
        must(cuda::clip_and_noise({stream, nullptr}, argument, kClipNorm, kSigma, law, grid, workspace.get(), nullptr, true), "clip_and_noise");
        if (report_in(workspace).open_samples > 0) must(cuda::settle(stream, noised, law, in_grid_units(grid), workspace.get(), nullptr), "settle");
        must(cuda::int8_values(noised, out.get(), nullptr), "int8_values");
        check(out.to_host() == expected, "int8 values, " + what);
    }

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

// Calls test(Stored{}) for the types that arrays of rows have.
template <class Test>
void of_all_dtypes(Test test) {
    test(float{});
    test(double{});
    test(Float16{});
    test(Bfloat16{});
}

// Calls test(rows, columns) for shapes around groups, tiles and shared memory.
template <class Test>
void of_all_shapes(Test test) {
    for (const std::size_t columns : {1, 15, 16, 255, 256, 257, 384, 768, 1024, 1536, 30001}) test(columns < 1000 ? 70 : 9, columns);
}

void rows() {
    of_all_dtypes([]<class Stored>(Stored) { of_all_shapes(rows_equal_the_core<Stored>); });
}

void half_words() {
    of_all_dtypes([]<class Stored>(Stored) {
        for (const std::size_t columns : {1, 31, 100, 257, 384, 400, 768, 1024, 1025, 1280, 1536}) {
            for (const Cipher cipher : {Cipher::chacha20, Cipher::chacha12, Cipher::chacha8}) {
                half_words_equal_the_core<Stored>(columns < 500 ? 37 : 9, columns, cipher);
            }
        }
        half_words_equal_the_core<Stored>(3, 30001, Cipher::chacha20);
        // s = 2.1 and 0.002, as the norm is so large.
        for (const double sigma : {1e-6, 1e-9}) half_words_equal_the_core<Stored>(9, 768, Cipher::chacha12, sigma);
    });
    lists_of_half_words_overflow();
}

void clips() {
    of_all_dtypes([]<class Stored>(Stored) { of_all_shapes(clips_equal_the_core<Stored>); });
}

void privunit_rows() {
    of_all_dtypes([]<class Stored>(Stored) { of_all_shapes(privunit_equals_the_core<Stored>); });
}

void l2_laplace_rows() {
    of_all_dtypes([]<class Stored>(Stored) {
        for (const std::size_t columns : {1, 33, 256, 1000}) l2_laplace_is_close_to_the_core<Stored>(37, columns);
    });
}

void fills() {
    of_all_dtypes([]<class Stored>(Stored) {
        for (const std::size_t count : {1, 255, 256, 257, 70001}) fills_are_close_to_the_core<Stored>(count);
    });
}

void streams() {
    a_stream_in_memory_advances();
    no_nonce_is_taken_twice();
    rows_from_memory_are_of_version_1();
}

void open_samples() {
    of_all_dtypes([]<class Stored>(Stored) { listed_samples_are_settled<Stored>(); });
    listed_samples_of_sums_are_settled(false);
    listed_samples_of_sums_are_settled(true);
    listed_samples_of_correlated_sums_are_settled();
}

void codes() {
    nearest_codes_are_those_of_the_definition<float>();
    nearest_codes_are_those_of_the_definition<Float16>();
    nearest_codes_are_those_of_the_definition<Bfloat16>();
}

template <class Integer>
void discrete_noise_equals_the_core() {
    for (const DiscreteLaw law : {DiscreteLaw::gaussian, DiscreteLaw::laplacian}) {
        for (const double scale : {0x1p-6, 3.0, 1e6}) {
            for (const std::size_t count : {1, 255, 257, 70001}) {
                const std::string what = std::to_string(count) + " whole numbers of scale " + std::to_string(scale);
                std::vector<Integer> expected(count);
                fill_discrete(test_stream(), law, scale, expected.data(), count);
                DeviceArray<Integer> out(count);
                DeviceArray<std::byte> workspace = zeros(cuda::discrete_workspace_bytes(count));
                const cuda::IntegersArgument argument = {out.get(), sizeof(Integer), count};
                must(cuda::discrete_noise(test_stream(), law, scale, argument, workspace.get(), nullptr), "discrete_noise");
                const cuda::Report report = report_in(workspace);
                check(report.overflow == 0 && report.open_samples <= 16 + count / 16, "few words are open, " + what);
                if (report.open_samples > 0) must(cuda::settle_discrete(test_stream(), law, scale, argument, report, workspace.get(), nullptr), "settle_discrete");
                check(out.to_host() == expected, what);
                check(is_wiped(workspace, cuda::discrete_workspace_bytes(0), cuda::discrete_workspace_bytes(count)), "open ones are wiped, " + what);
            }
        }
    }
}

void responses() {
    discrete_noise_equals_the_core<std::int32_t>();
    discrete_noise_equals_the_core<std::int64_t>();
    responses_equal_the_core<std::int8_t>();
    responses_equal_the_core<std::int16_t>();
    responses_equal_the_core<std::int32_t>();
    responses_equal_the_core<std::int64_t>();
}

void int8_values() {
    of_all_dtypes([]<class Stored>(Stored) {
        for (const std::size_t columns : {1, 257, 384, 1000}) int8_values_equal_the_core<Stored>(37, columns);
        int8_values_saturate<Stored>();
    });
}

struct Case {
    std::string name;
    void (*run)();
};

const std::vector<Case> kCases = {{"rows", rows}, {"half_words", half_words}, {"clips", clips}, {"privunit", privunit_rows}, {"l2_laplace", l2_laplace_rows}, {"fills", fills}, {"bad_rows", bad_rows_are_reported}, {"streams", streams}, {"sums", sums}, {"correlated_sums", correlated_sums}, {"open_samples", open_samples}, {"codes", codes}, {"responses", responses}, {"int8", int8_values}};

bool is_case(const std::string& name) {
    return std::any_of(kCases.begin(), kCases.end(), [&](const Case& each) { return each.name == name; });
}

}  // namespace

int main(int count, char** arguments) {
    const std::set<std::string> wanted(arguments + 1, arguments + count);
    for (const std::string& name : wanted) {
        if (is_case(name)) continue;
        std::printf("a case must be");
        for (const Case& each : kCases) std::printf(" %s", each.name.c_str());
        std::printf(", got %s\n", name.c_str());
        return 2;
    }
    int devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&devices);
    if (error != cudaSuccess || devices == 0) {
        std::printf("no CUDA device: %s\n", cudaGetErrorString(error));
        return 77;
    }
    for (const Case& each : kCases) {
        if (wanted.empty() || wanted.count(each.name) > 0) each.run();
    }
    return test::summary();
}
