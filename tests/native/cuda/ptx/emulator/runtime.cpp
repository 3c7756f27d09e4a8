// The CUDA runtime that the project's objects are linked with in place of NVIDIA's: as far as they call it, over the emulated device.
//
// What is put on a stream runs when something waits for it, and not before: a result that is read too early is not there. What a stream
// captures goes into a graph. Two devices exist, so that calls for another than the current one are seen.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "block.hpp"

using namespace emulator;

// ---- what the translated code and the host code register ----

namespace {

constexpr int kDevices = 2;
constexpr std::size_t kSharedOfBlock = 48 * 1024, kMostSharedOfBlock = 232448, kSharedOfMultiprocessor = 233472;   // of an H100
constexpr unsigned kMostThreads = 1024, kMostGridX = 2147483647, kMostGridY = 65535;

std::map<std::string, const Kernel*>& kernels() {
    static auto* const instance = new std::map<std::string, const Kernel*>;
    return *instance;
}

// A small device has less room than the work asks for: kernels stride, and blocks take more at once.
int multiprocessors() {
    const char* const number = std::getenv("HUSHVEC_EMULATED_MULTIPROCESSORS");
    return number != nullptr ? std::atoi(number) : 132;
}

struct HostFunction {
    std::string name;
    std::size_t most_dynamic = kSharedOfBlock;
};
std::map<const void*, HostFunction>& host_functions() {
    static auto* const instance = new std::map<const void*, HostFunction>;
    return *instance;
}

// Without the hashes of an anonymous namespace, as translate.py has the names.
std::string kernel_name(const char* mangled) {
    static const std::regex hashes("_GLOBAL__N__[0-9a-f]{8}_([0-9]+_[A-Za-z0-9_]+?_cu)_[0-9a-f]{8}");
    return std::regex_replace(mangled, hashes, "_GLOBAL__N__$1");
}

std::map<std::string, std::size_t>& launches_by_kernel() {
    static auto* const instance = new std::map<std::string, std::size_t>;
    return *instance;
}

}  // namespace

namespace emulator {

Kernel::Kernel(const char* kernel_name, void (*function)(Thread&), std::uint32_t shared, std::initializer_list<std::size_t> sizes)
    : name(kernel_name), run(function), shared_bytes(shared), parameter_sizes(sizes) {
    kernels()[name] = this;
}
Constant::Constant(const void* data, std::size_t bytes) { memory().add_constant(data, bytes); }

}  // namespace emulator

// ---- streams, events, graphs ----

struct CUevent_st {
    bool recorded = false, done = false;
    CUstream_st* stream = nullptr;
};

using Work = std::function<void()>;

struct CUgraph_st {
    std::vector<Work> works;
};
struct CUgraphExec_st {
    std::vector<Work> works;
};

struct CUstream_st {
    std::deque<Work> queue;
    CUgraph_st* captures = nullptr;
};

namespace {

// What the tests count; Counts of tests/native/cuda/emulated_backend.py.
struct Counts {
    long kernels = 0, memsets = 0, copies = 0, waits = 0, faults = 0, attributes = 0, device_changes = 0;
} counts;

int current_device = 0;
CUstream_st null_stream;
std::vector<CUstream_st*> streams = {&null_stream};

CUstream_st& stream_of(cudaStream_t handle) {
    const bool is_null = handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread;
    return is_null ? null_stream : *handle;
}

void finish(CUstream_st& stream) {
    while (!stream.queue.empty()) {
        const Work work = std::move(stream.queue.front());
        stream.queue.pop_front();
        work();
    }
}

// The last stream first: whoever relies on another order than that of his stream finds it broken.
void finish_all() {
    for (std::size_t i = streams.size(); i-- > 0;) finish(*streams[i]);
}

cudaError_t put(cudaStream_t handle, Work work) {
    CUstream_st& stream = stream_of(handle);
    if (stream.captures != nullptr) stream.captures->works.push_back(std::move(work));
    else stream.queue.push_back(std::move(work));
    return cudaSuccess;
}

bool anything_captures() {
    return std::any_of(streams.begin(), streams.end(), [](const CUstream_st* stream) { return stream->captures != nullptr; });
}

// What may not happen while a stream of the process is captured.
cudaError_t refuse_capture(const char* what) {
    if (!anything_captures()) return cudaSuccess;
    report_fault(std::string(what) + " while a stream is captured");
    return cudaErrorStreamCaptureUnsupported;
}

bool is_device_memory(const void* pointer, std::size_t bytes) { return memory().find(reinterpret_cast<std::uintptr_t>(pointer), bytes) != nullptr; }

cudaError_t check_device_memory(const void* pointer, std::size_t bytes, const char* what) {
    if (bytes == 0 || is_device_memory(pointer, bytes)) return cudaSuccess;
    report_fault(std::string(what) + " outside of device memory");
    return cudaErrorInvalidValue;
}

cudaError_t check_copy(const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    cudaError_t error = cudaSuccess;
    if (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) error = check_device_memory(to, bytes, "a copy");
    if (error == cudaSuccess && (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice)) error = check_device_memory(from, bytes, "a copy");
    return error;
}

bool configuration_is_valid(const cudaLaunchConfig_t& configuration, const HostFunction& function, const Kernel& kernel) {
    const dim3 grid = configuration.gridDim, block = configuration.blockDim;
    const bool is_grid = grid.x >= 1 && grid.x <= kMostGridX && grid.y >= 1 && grid.y <= kMostGridY && grid.z == 1;
    const bool is_block = block.x >= 1 && block.x <= kMostThreads && block.y == 1 && block.z == 1;
    const std::size_t shared = configuration.dynamicSmemBytes + kernel.shared_bytes;
    return is_grid && is_block && shared <= std::max(function.most_dynamic, kSharedOfBlock);
}

}  // namespace

extern "C" {

// ---- registration: what nvcc's host code calls before main ----

void** __cudaRegisterFatBinary(void*) {
    static void* handle = nullptr;
    return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
    host_functions()[host] = {kernel_name(name), kSharedOfBlock};
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
    *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
    return cudaSuccess;
}

static thread_local cudaLaunchConfig_t pushed = {};
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream) {
    pushed = {};
    pushed.gridDim = grid;
    pushed.blockDim = block;
    pushed.dynamicSmemBytes = shared;
    pushed.stream = stream;
    return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
    *grid = pushed.gridDim;
    *block = pushed.blockDim;
    *shared = pushed.dynamicSmemBytes;
    *static_cast<cudaStream_t*>(stream) = pushed.stream;
    return cudaSuccess;
}

// ---- launches ----

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* configuration, const void* function, void** arguments) {
    const auto known = host_functions().find(function);
    if (known == host_functions().end()) return cudaErrorInvalidDeviceFunction;
    const auto translated = kernels().find(known->second.name);
    if (translated == kernels().end()) {
        report_fault("no translation of " + known->second.name);
        return cudaErrorInvalidDeviceFunction;
    }
    const Kernel& kernel = *translated->second;
    if (!configuration_is_valid(*configuration, known->second, kernel)) return cudaErrorInvalidConfiguration;
    Launch launch = {&kernel, {configuration->gridDim.x, configuration->gridDim.y}, configuration->blockDim.x, configuration->dynamicSmemBytes, {}, {}};
    for (std::size_t i = 0; i < kernel.parameter_sizes.size(); ++i) {
        launch.offsets.push_back(launch.parameters.size());
        const auto* const value = static_cast<const std::uint8_t*>(arguments[i]);
        launch.parameters.insert(launch.parameters.end(), value, value + kernel.parameter_sizes[i]);
        launch.parameters.resize((launch.parameters.size() + 15) / 16 * 16);
    }
    ++counts.kernels;
    ++launches_by_kernel()[kernel.name];
    return put(configuration->stream, [launch] { run(launch); });
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream) {
    cudaLaunchConfig_t configuration = {};
    configuration.gridDim = grid;
    configuration.blockDim = block;
    configuration.dynamicSmemBytes = shared;
    configuration.stream = stream;
    return cudaLaunchKernelExC(&configuration, kernel, arguments);
}
cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream) {
    return __cudaLaunchKernel(static_cast<cudaKernel_t>(const_cast<void*>(function)), grid, block, arguments, shared, stream);
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
    const auto known = host_functions().find(function);
    if (known == host_functions().end()) return cudaErrorInvalidDeviceFunction;
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value > static_cast<int>(kMostSharedOfBlock)) return cudaErrorInvalidValue;
    known->second.most_dynamic = static_cast<std::size_t>(value);
    return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
    ++counts.attributes;
    *attributes = {};
    return host_functions().count(function) != 0 ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

// ---- memory ----

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
    if (const cudaError_t error = refuse_capture("cudaMalloc"); error != cudaSuccess) return error;
    *pointer = memory().allocate(bytes, current_device);
    return *pointer != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void* pointer) {
    if (pointer == nullptr) return cudaSuccess;
    finish_all();
    return memory().release(pointer) ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    if (const cudaError_t error = refuse_capture("cudaMemcpy"); error != cudaSuccess) return error;
    if (const cudaError_t error = check_copy(to, from, bytes, kind); error != cudaSuccess) return error;
    finish(null_stream);
    std::memcpy(to, from, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    if (const cudaError_t error = check_copy(to, from, bytes, kind); error != cudaSuccess) return error;
    ++counts.copies;
    if (kind != cudaMemcpyHostToDevice) return put(stream, [=] { std::memcpy(to, from, bytes); });
    // Pageable memory is read before the call returns.
    const auto* const first = static_cast<const std::uint8_t*>(from);
    return put(stream, [to, kept = std::vector<std::uint8_t>(first, first + bytes)] { std::memcpy(to, kept.data(), kept.size()); });
}
cudaError_t cudaMemsetAsync(void* pointer, int value, size_t bytes, cudaStream_t stream) {
    if (const cudaError_t error = check_device_memory(pointer, bytes, "a memset"); error != cudaSuccess) return error;
    ++counts.memsets;
    return put(stream, [=] { std::memset(pointer, value, bytes); });
}
cudaError_t cudaMemset(void* pointer, int value, size_t bytes) {
    const cudaError_t error = cudaMemsetAsync(pointer, value, bytes, nullptr);
    finish(null_stream);
    return error;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
    *attributes = {};
    const Allocation* const found = memory().find(reinterpret_cast<std::uintptr_t>(pointer), 0);
    attributes->type = found != nullptr ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
    attributes->device = found != nullptr ? found->device : current_device;
    return cudaSuccess;
}

// ---- waiting ----

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    if (const cudaError_t error = refuse_capture("cudaStreamSynchronize"); error != cudaSuccess) return error;
    ++counts.waits;
    finish(stream_of(stream));
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
    if (const cudaError_t error = refuse_capture("cudaDeviceSynchronize"); error != cudaSuccess) return error;
    ++counts.waits;
    finish_all();
    return cudaSuccess;
}

// ---- streams and events ----

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
    streams.push_back(*stream = new CUstream_st);
    return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    finish(*stream);
    streams.erase(std::find(streams.begin(), streams.end(), stream));
    delete stream;
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
    *event = new CUevent_st;
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    finish_all();
    delete event;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    event->recorded = true;
    event->done = false;
    event->stream = &stream_of(stream);
    return put(stream, [event] { event->done = true; });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    return put(stream, [event] {
        if (event->recorded && !event->done) finish(*event->stream);
    });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    ++counts.waits;
    if (event->recorded && !event->done) finish(*event->stream);
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t last) {
    if (!first->done || !last->done) return cudaErrorNotReady;
    *milliseconds = 1;   // no time passes here
    return cudaSuccess;
}

// ---- capture ----

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    *status = stream_of(stream).captures != nullptr ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    stream_of(stream).captures = new CUgraph_st;
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    *graph = std::exchange(stream_of(stream).captures, nullptr);
    return *graph != nullptr ? cudaSuccess : cudaErrorIllegalState;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* instance, cudaGraph_t graph, unsigned long long) {
    *instance = new CUgraphExec_st{graph->works};
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t instance, cudaStream_t stream) {
    for (const Work& work : instance->works) put(stream, work);
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t instance) {
    finish_all();
    delete instance;
    return cudaSuccess;
}

// ---- devices ----

cudaError_t cudaGetDevice(int* device) {
    *device = current_device;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    if (device < 0 || device >= kDevices) return cudaErrorInvalidDevice;
    ++counts.device_changes;
    current_device = device;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
    *count = kDevices;
    return cudaSuccess;
}
// There is no driver behind it: callers do without what they would ask of one.
#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** function, unsigned, unsigned long long, cudaDriverEntryPointQueryResult* result) {
#else
cudaError_t cudaGetDriverEntryPoint(const char*, void** function, unsigned long long, cudaDriverEntryPointQueryResult* result) {
#endif
    *function = nullptr;
    *result = cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
    switch (attribute) {
        case cudaDevAttrMultiProcessorCount: *value = multiprocessors(); return cudaSuccess;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = kSharedOfMultiprocessor; return cudaSuccess;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = kMostSharedOfBlock; return cudaSuccess;
        default: return cudaErrorInvalidValue;
    }
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
    *properties = {};
    std::strcpy(properties->name, "emulated device");
    properties->multiProcessorCount = multiprocessors();
    return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t error) {
    static std::map<cudaError_t, std::string> names;
    return names.try_emplace(error, "cudaError " + std::to_string(static_cast<int>(error))).first->second.c_str();
}
const char* cudaGetErrorString(cudaError_t error) { return error == cudaSuccess ? "no error" : "refused by the emulated device"; }

// ---- for the tests ----

// What an allocator that caches does: also in a capture, where cudaMalloc is refused.
void* hushvec_emulated_allocate(size_t bytes, int device) { return memory().allocate(bytes, device); }
void hushvec_emulated_wait() { finish_all(); }   // not counted
void hushvec_emulated_counts(long* out) {
    counts.faults = static_cast<long>(fault_count());
    std::memcpy(out, &counts, sizeof counts);
}

}  // extern "C"

namespace {

// At the end of the process, on standard error: what ran, and the kernels that did not.
struct Summary {
    ~Summary() {
        finish_all();
        std::size_t executed = 0;
        for (const auto& [name, kernel] : kernels()) {
            const auto found = launches_by_kernel().find(name);
            executed += found != launches_by_kernel().end();
            if (std::getenv("HUSHVEC_EMULATED_TABLE") != nullptr) {
                std::fprintf(stderr, "%8zu launches of %s\n", found == launches_by_kernel().end() ? 0 : found->second, name.c_str());
            }
        }
        std::fprintf(stderr, "emulated device: %zu of %zu kernels, %zu launches, %zu threads, %zu barriers, %zu faults\n", executed, kernels().size(),
                     totals().launches, totals().threads, totals().barriers, fault_count());
    }
} summary;

}  // namespace
