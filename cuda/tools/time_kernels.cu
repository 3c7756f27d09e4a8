// Times the launchers with CUDA events, beside a copy, a fill and cuRAND's device code in the same run.
//
//   time_kernels [--work fill,clip,rows,privunit,l2_laplace,response,codes] [--law gaussian,laplacian] [--grade exact,float] [--dtype float32,float64,float16,bfloat16]
//                [--rounds 20,12,8] [--d 384,768,1024,1536] [--source value,memory,half] [--rows N] [--bytes N] [--repeats N] [--warm-up N]
//   time_kernels --list [...]     the names of the cases that these arguments choose, and no device
//
// --source half: streams of format version 3, which exact noise on rows draws half of; nothing else is timed with them.
// A line of JSON for the device, then one for each case: bytes are the user's, read and written once each; ratio is the speed over that of
// `ceiling`, the device copy or the plain fill. No call waits for its report here, and none settles samples. Exits 77 without a device.
#include <cuda_runtime.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hushvec/clip.hpp"
#include "hushvec/discrete.hpp"
#include "hushvec/privunit.hpp"
#include "hushvec_cuda/discrete.hpp"
#include "hushvec_cuda/launch.hpp"
#include "hushvec_cuda/privunit.hpp"
#include "hushvec_cuda/row_passes.hpp"

#if HUSHVEC_CURAND
#include <curand_kernel.h>
#endif

namespace {

using namespace hushvec;

constexpr double kClipNorm = 1, kSigma = 0.6, kEpsilon = 10;
constexpr std::uint64_t kLabels = 1000;
constexpr std::size_t kCodes = 256;
constexpr int kBuffers = 2;   // in turn, so that a call finds nothing of the one before in the cache
constexpr unsigned kThreads = 256;
constexpr int kBadArguments = 2, kDeviceFailed = 3, kNoDevice = 77;

void must(cudaError_t error, const char* what) {
    if (error == cudaSuccess) return;
    std::fprintf(stderr, "time_kernels: %s: %s\n", what, cudaGetErrorString(error));
    std::exit(kDeviceFailed);
}

// ---- arguments ----

[[noreturn]] void refuse(const std::string& why) {
    std::fprintf(stderr, "time_kernels: %s\n", why.c_str());
    std::exit(kBadArguments);
}

const std::map<std::string, DType, std::less<>> kDtypes = {
    {"float32", DType::float32}, {"float64", DType::float64}, {"float16", DType::float16}, {"bfloat16", DType::bfloat16}};
const std::map<std::string, Cipher, std::less<>> kRounds = {{"20", Cipher::chacha20}, {"12", Cipher::chacha12}, {"8", Cipher::chacha8}};

struct Arguments {
    std::map<std::string, std::vector<std::string>, std::less<>> lists = {
        {"--work", {"fill", "clip", "rows", "privunit", "l2_laplace", "response", "codes"}}, {"--law", {"gaussian", "laplacian"}}, {"--grade", {"exact", "float"}}, {"--dtype", {"float32", "bfloat16", "float16"}}, {"--rounds", {"20", "12", "8"}}, {"--d", {"384", "768", "1024", "1536"}}, {"--source", {"value"}}};
    std::map<std::string, std::size_t, std::less<>> numbers = {
        {"--rows", 0}, {"--bytes", std::size_t{2} << 30}, {"--repeats", 40}, {"--warm-up", 4}};
    bool list_only = false;
};

std::size_t number_in(std::string_view text, const std::string& name) {
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) refuse(name + " takes a whole number, got " + std::string(text));
    return value;
}

std::vector<std::string> split(std::string_view text) {
    std::vector<std::string> parts;
    for (std::size_t from = 0; from <= text.size();) {
        const std::size_t comma = std::min(text.find(',', from), text.size());
        parts.emplace_back(text.substr(from, comma - from));
        from = comma + 1;
    }
    return parts;
}

// --d takes any number; the others take what they name by default, --dtype one more and --source two.
void check_words(const std::string& name, const std::vector<std::string>& given) {
    const Arguments defaults;
    for (const std::string& word : given) {
        const std::vector<std::string>& known = defaults.lists.at(name);
        const bool other = name == "--d" ? number_in(word, name) > 0 : (name == "--source" ? word == "memory" || word == "half" : name == "--dtype" && word == "float64");
        if (!other && std::find(known.begin(), known.end(), word) == known.end()) refuse(name + " does not know " + word);
    }
}

Arguments read_arguments(int count, char** words) {
    Arguments arguments;
    for (int i = 1; i < count; ++i) {
        const std::string name = words[i];
        if (name == "--list") {
            arguments.list_only = true;
            continue;
        }
        const bool is_list = arguments.lists.contains(name);
        if (!is_list && !arguments.numbers.contains(name)) refuse("no such argument: " + name);
        if (++i == count) refuse(name + " takes a value");
        if (is_list) {
            arguments.lists[name] = split(words[i]);
            check_words(name, arguments.lists[name]);
        } else {
            arguments.numbers[name] = number_in(words[i], name);
        }
    }
    if (arguments.numbers["--repeats"] == 0) refuse("--repeats must be at least 1");
    if (arguments.numbers["--bytes"] < 4096) refuse("--bytes must be at least 4096");
    return arguments;
}

// ---- cases ----

struct Case {
    std::string kind;   // as --work names it
    std::string name, work, ceiling, law, grade, dtype, rounds, source;
    std::size_t rows = 0, columns = 0;   // a fill has one row, and so have labels

    std::size_t samples() const { return rows * columns; }
    std::size_t array_bytes() const { return samples() * item_size(kDtypes.at(dtype)); }
    std::size_t bytes() const { return kind == "fill" || kind == "codes" ? array_bytes() : 2 * array_bytes(); }
    std::size_t workspace_bytes() const {
        const DType type = kDtypes.at(dtype);
        if (kind == "response") return cuda::report_bytes();
        if (kind == "privunit") return cuda::privunit_workspace_bytes(rows, columns, type);
        if (kind == "l2_laplace") return cuda::l2_laplace_workspace_bytes(rows, columns, type);
        return cuda::workspace_bytes(rows, columns, type);
    }
};

std::string rounds_and_source(const Case& c) {
    const char* const source = c.source == "memory" ? ", key in memory" : c.source == "half" ? ", version 3"
                                                                                             : "";
    return ", " + c.rounds + " rounds" + source;
}

void add_fills(const Arguments& arguments, Case c, std::vector<Case>& cases) {
    c.columns = arguments.numbers.at("--bytes") / item_size(kDtypes.at(c.dtype));
    c.rows = 1;
    c.ceiling = "plain fill";
    for (const std::string& law : arguments.lists.at("--law")) {
        for (const std::string& rounds : arguments.lists.at("--rounds")) {
            for (const std::string& source : arguments.lists.at("--source")) {
                if (source == "half") continue;
                c.law = law, c.rounds = rounds, c.source = source;
                c.work = law + " fill, " + c.dtype;
                c.name = c.work + rounds_and_source(c);
                cases.push_back(c);
            }
        }
    }
}

void add_rows(const Arguments& arguments, Case c, std::vector<Case>& cases) {
    for (const std::string& law : arguments.lists.at("--law")) {
        for (const std::string& rounds : arguments.lists.at("--rounds")) {
            for (const std::string& grade : arguments.lists.at("--grade")) {
                for (const std::string& source : arguments.lists.at("--source")) {
                    if (source == "half" && grade != "exact") continue;
                    c.law = law, c.rounds = rounds, c.grade = grade, c.source = source;
                    const std::string noise = law == "gaussian" ? "clip and noise" : "clip and Laplacian noise";
                    const std::string shape = ", " + c.dtype + ", d = " + std::to_string(c.columns);
                    c.work = noise + shape;
                    c.name = grade + " " + noise + shape + rounds_and_source(c);
                    cases.push_back(c);
                }
            }
        }
    }
}

void add_responses(const Arguments& arguments, std::vector<Case>& cases) {
    Case c;
    c.kind = "response";
    c.dtype = "float64";   // of the size of a label
    c.ceiling = "device copy";
    c.rows = 1;
    c.columns = arguments.numbers.at("--bytes") / sizeof(std::int64_t);
    c.work = "randomized response, int64";
    for (const std::string& rounds : arguments.lists.at("--rounds")) {
        c.rounds = rounds;
        c.name = c.work + rounds_and_source(c);
        cases.push_back(c);
    }
}

// Of rows by one of the laws that have no grade and no state.
void add_releases(const Arguments& arguments, Case c, std::vector<Case>& cases) {
    const std::string shape = ", " + c.dtype + ", d = " + std::to_string(c.columns);
    c.work = (c.kind == "privunit" ? "PrivUnitG" : "clip and L2-Laplace noise") + shape;
    for (const std::string& rounds : arguments.lists.at("--rounds")) {
        c.rounds = rounds;
        c.name = c.work + rounds_and_source(c);
        cases.push_back(c);
    }
}

std::vector<Case> chosen(const Arguments& arguments) {
    std::vector<Case> cases;
    for (const std::string& work : arguments.lists.at("--work")) {
        if (work == "response") {
            add_responses(arguments, cases);
            continue;
        }
        for (const std::string& dtype : arguments.lists.at("--dtype")) {
            Case c;
            c.kind = work;
            c.dtype = dtype;
            if (work == "fill") {
                add_fills(arguments, c, cases);
                continue;
            }
            if (work == "codes" && dtype == "float64") continue;   // their rows become float32 first
            c.ceiling = "device copy";
            for (const std::string& d : arguments.lists.at("--d")) {
                c.columns = number_in(d, "--d");
                const std::size_t given = arguments.numbers.at("--rows");
                c.rows = given > 0 ? given : std::max<std::size_t>(1, arguments.numbers.at("--bytes") / (c.columns * item_size(kDtypes.at(dtype))));
                if (work == "rows") {
                    add_rows(arguments, c, cases);
                } else if (work == "privunit" || work == "l2_laplace") {
                    add_releases(arguments, c, cases);
                } else if (work == "codes") {
                    c.name = c.work = "nearest of " + std::to_string(kCodes) + " codes, " + dtype + ", d = " + d;
                    cases.push_back(c);
                } else {
                    c.name = c.work = "clip, " + dtype + ", d = " + d;
                    cases.push_back(c);
                }
            }
        }
    }
    return cases;
}

// ---- timing ----

struct Times {
    double median, best, spread;   // milliseconds; half the distance of the quartiles over the median
};

class Clock {
public:
    explicit Clock(const Arguments& arguments)
        : repeats_(arguments.numbers.at("--repeats")), warm_up_(arguments.numbers.at("--warm-up")), marks_(2 * repeats_) {
        for (cudaEvent_t& mark : marks_) must(cudaEventCreate(&mark), "cudaEventCreate");
    }
    Clock(const Clock&) = delete;
    Clock& operator=(const Clock&) = delete;
    ~Clock() {
        for (const cudaEvent_t mark : marks_) cudaEventDestroy(mark);
    }

    // call(i) for the buffers i, in turn.
    Times time(const std::string& name, const std::function<cudaError_t(int)>& call) {
        for (std::size_t i = 0; i < warm_up_; ++i) must(call(static_cast<int>(i) % kBuffers), name.c_str());
        for (std::size_t i = 0; i < repeats_; ++i) {
            must(cudaEventRecord(marks_[2 * i]), "cudaEventRecord");
            must(call(static_cast<int>(i) % kBuffers), name.c_str());
            must(cudaEventRecord(marks_[2 * i + 1]), "cudaEventRecord");
        }
        must(cudaDeviceSynchronize(), name.c_str());
        std::vector<double> times;
        for (std::size_t i = 0; i < repeats_; ++i) {
            float milliseconds = 0;
            must(cudaEventElapsedTime(&milliseconds, marks_[2 * i], marks_[2 * i + 1]), "cudaEventElapsedTime");
            times.push_back(milliseconds);
        }
        std::sort(times.begin(), times.end());
        const std::size_t n = times.size(), quarter = n / 4;
        const double median = (times[(n - 1) / 2] + times[n / 2]) / 2;
        return {median, times.front(), (times[n - 1 - quarter] - times[quarter]) / (2 * median)};
    }

private:
    std::size_t repeats_, warm_up_;
    std::vector<cudaEvent_t> marks_;
};

// ---- what is launched ----

__global__ void copy_kernel(const uint4* from, uint4* to, std::size_t count) {
    const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
    for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) to[i] = from[i];
}

__global__ void fill_kernel_of_ones(uint4* to, std::size_t count) {
    const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
    for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) to[i] = uint4{1, 1, 1, 1};
}

#if HUSHVEC_CURAND
__global__ void curand_kernel(float4* to, std::size_t count) {
    const std::size_t first = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x, step = std::size_t{gridDim.x} * blockDim.x;
    curandStatePhilox4_32_10_t state;
    curand_init(1, first, 0, &state);
    for (std::size_t i = first; i < count; i += step) to[i] = curand_normal4(&state);
}
#endif

class Device {
public:
    Device(const Arguments& arguments, const std::vector<Case>& cases) : clock_(arguments) {
        must(cudaGetDeviceProperties(&properties_, 0), "cudaGetDeviceProperties");
        blocks_ = static_cast<unsigned>(properties_.multiProcessorCount) * 16;
        bytes_ = arguments.numbers.at("--bytes") / sizeof(uint4) * sizeof(uint4);
        std::size_t array = std::max(bytes_, sizeof(uint4)), workspace = cuda::fill_workspace_bytes(), columns = 1;
        for (const Case& c : cases) {
            array = std::max(array, c.array_bytes());
            workspace = std::max(workspace, c.workspace_bytes());
            if (c.kind == "codes") columns = std::max(columns, c.columns);
            array = std::max(array, c.kind == "codes" ? c.rows * sizeof(std::int32_t) : 0);
        }
        for (int i = 0; i < kBuffers; ++i) {
            must(cudaMalloc(&x_[i], array), "cudaMalloc");
            must(cudaMalloc(&out_[i], array), "cudaMalloc");
        }
        must(cudaMalloc(&workspace_, workspace), "cudaMalloc");
        must(cudaMalloc(&memory_, sizeof *memory_), "cudaMalloc");
        must(cudaMalloc(&codes_, kCodes * columns * sizeof(float)), "cudaMalloc");
        for (std::uint32_t i = 0; i < 8; ++i) stream_.key[i] = 0x9E3779B9u * (i + 1);
        must(cuda::load_kernels(), "load_kernels");
        must(cuda::fill_noise({next(), nullptr}, Law::gaussian, 1, {codes_, DType::float32, kCodes * columns}, nullptr, nullptr), "codes");
    }

    void print_facts() const {
        int driver = 0, runtime = 0;
        must(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
        must(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
        std::printf("{\"device\": \"%s\", \"multiprocessors\": %d, \"l2_bytes\": %d, \"driver\": %d, \"runtime\": %d, \"curand\": %s}\n",
                    properties_.name, properties_.multiProcessorCount, properties_.l2CacheSize, driver, runtime, HUSHVEC_CURAND ? "true" : "false");
    }

    void time_ceilings() {
        const std::size_t count = bytes_ / sizeof(uint4);
        for (void* const x : x_) {   // zeros would cost less power to move
            must(cuda::fill_noise({next(), nullptr}, Law::gaussian, 1, {x, DType::float32, bytes_ / 4}, nullptr, nullptr), "noise to copy");
        }
        copy_ = rate("device copy", 2 * bytes_, "", [&](int i) { return cudaMemcpyAsync(out_[i], x_[i], bytes_, cudaMemcpyDeviceToDevice); });
        rate("copy by a kernel", 2 * bytes_, "device copy", [&](int i) {
            copy_kernel<<<blocks_, kThreads>>>(static_cast<const uint4*>(x_[i]), static_cast<uint4*>(out_[i]), count);
            return cudaGetLastError();
        });
        fill_ = rate("plain fill", bytes_, "", [&](int i) {
            fill_kernel_of_ones<<<blocks_, kThreads>>>(static_cast<uint4*>(out_[i]), count);
            return cudaGetLastError();
        });
        rate("cudaMemset", bytes_, "plain fill", [&](int i) { return cudaMemsetAsync(out_[i], 1, bytes_); });
#if HUSHVEC_CURAND
        rate("cuRAND Philox4_32_10, float32", bytes_, "plain fill", [&](int i) {
            curand_kernel<<<blocks_, kThreads>>>(static_cast<float4*>(out_[i]), count);
            return cudaGetLastError(); }, "gaussian fill, float32", true);
#endif
    }

    void time(const Case& c) {
        prepare(c);
        rate(c.name, c.bytes(), c.ceiling, [&](int i) { return run(c, i); }, c.work, false, c.samples());
    }

private:
    // Bytes in a millisecond, after a line with everything.
    double rate(const std::string& name, std::size_t bytes, const std::string& ceiling, const std::function<cudaError_t(int)>& call,
                const std::string& work = "", bool peer = false, std::size_t samples = 0) {
        const Times times = clock_.time(name, call);
        const double per_millisecond = static_cast<double>(bytes) / times.median;
        std::printf("{\"name\": \"%s\", \"median_ms\": %.6f, \"min_ms\": %.6f, \"spread\": %.4f, \"bytes\": %zu, \"samples\": %zu, \"gb_per_s\": %.1f",
                    name.c_str(), times.median, times.best, times.spread, bytes, samples > 0 ? samples : bytes_ / 4, per_millisecond / 1e6);
        if (!ceiling.empty()) std::printf(", \"ceiling\": \"%s\", \"ratio\": %.4f", ceiling.c_str(), per_millisecond / (ceiling == "plain fill" ? fill_ : copy_));
        if (!work.empty()) std::printf(", \"work\": \"%s\", \"peer\": %s", work.c_str(), peer ? "true" : "false");
        std::printf("}\n");
        std::fflush(stdout);
        return per_millisecond;
    }

    // Rows of the case's dtype with norms about the clip norm: some are clipped and some are not.
    void prepare(const Case& c) {
        stream_.cipher = kRounds.at(c.rounds.empty() ? "20" : c.rounds);
        stream_.half_words = c.source == "half";
        if (c.source == "memory") {
            cuda::DeviceStream words = {{}, 0, static_cast<std::uint64_t>(rounds_of(stream_.cipher))};
            std::memcpy(words.key, stream_.key, sizeof words.key);
            must(cudaMemcpy(memory_, &words, sizeof words, cudaMemcpyHostToDevice), "cudaMemcpy");
        }
        if (c.kind == "response") {
            filled_.clear();
            for (void* const x : x_) must(cudaMemset(x, 0, c.array_bytes()), "labels");
            return;
        }
        const std::string filled = c.dtype + " " + std::to_string(c.columns) + " " + std::to_string(c.rows);
        if (c.kind == "fill" || filled == filled_) return;
        filled_ = filled;
        const double sigma = kClipNorm / std::sqrt(static_cast<double>(c.columns));
        for (void* const x : x_) {
            must(cuda::fill_noise({next(), nullptr}, Law::gaussian, sigma, {x, kDtypes.at(c.dtype), c.samples()}, nullptr, nullptr), "rows");
        }
    }

    KeyStream next() {
        ++stream_.nonce;
        return stream_;
    }

    cudaError_t run(const Case& c, int i) {
        const DType dtype = kDtypes.at(c.dtype);
        const Law law = c.law == "laplacian" ? Law::laplacian : Law::gaussian;
        const cuda::NoiseSource source = {next(), c.source == "memory" ? memory_ : nullptr};
        if (c.kind == "fill") return cuda::fill_noise(source, law, kSigma, {out_[i], dtype, c.samples()}, workspace_, nullptr);
        const cuda::RowsArgument rows = {x_[i], out_[i], dtype, c.rows, c.columns};
        if (c.kind == "clip") return cuda::clip(rows, kClipNorm, workspace_, nullptr);
        if (c.kind == "privunit") return cuda::privunit(source.stream, rows, law_, privunit_grid(kSigma), workspace_, nullptr);
        if (c.kind == "l2_laplace") return cuda::l2_laplace(source, rows, kClipNorm, kSigma, workspace_, nullptr);
        if (c.kind == "codes") return cuda::nearest_codes(rows, codes_, kCodes, static_cast<std::int32_t*>(out_[i]), nullptr);
        if (c.kind == "response") {
            const cudaError_t error = cuda::copy_codes({x_[i], out_[i], sizeof(std::int64_t), c.samples()}, kLabels, workspace_, nullptr);
            if (error != cudaSuccess) return error;
            return cuda::randomized_response(source.stream, response_law_, {out_[i], out_[i], sizeof(std::int64_t), c.samples()}, nullptr);
        }
        const ExactGrid grid = c.grade == "exact" ? exact_grid(kSigma, kClipNorm, is_half_words(source)) : ExactGrid{0, 0};
        return cuda::clip_and_noise(source, rows, kClipNorm, kSigma, law, grid, workspace_, nullptr);
    }

    Clock clock_;
    cudaDeviceProp properties_ = {};
    unsigned blocks_ = 0;
    std::size_t bytes_ = 0;   // of the arrays of ceilings
    void *x_[kBuffers] = {}, *out_[kBuffers] = {}, *workspace_ = nullptr;
    cuda::DeviceStream* memory_ = nullptr;
    float* codes_ = nullptr;
    KeyStream stream_;
    const PrivUnitLaw law_ = privunit_law(kEpsilon);
    const ResponseLaw response_law_ = response_law(kEpsilon, kLabels);
    std::string filled_;
    double copy_ = 0, fill_ = 0;
};

}  // namespace

int main(int count, char** words) {
    const Arguments arguments = read_arguments(count, words);
    const std::vector<Case> cases = chosen(arguments);
    if (arguments.list_only) {
        for (const Case& c : cases) std::printf("%s\n", c.name.c_str());
        return 0;
    }
    int devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&devices);
    if (error != cudaSuccess || devices == 0) {
        std::printf("no CUDA device: %s\n", cudaGetErrorString(error));
        return kNoDevice;
    }
    Device device(arguments, cases);
    device.print_facts();
    device.time_ceilings();
    for (const Case& c : cases) device.time(c);
    return 0;
}
