// Which device is current after a call, and that no call makes a context on another device than its own: OnDevice on a runtime of two
// devices that keeps count, as CUDA 12 does: choosing a device makes its context.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <string>

#include "check.hpp"
#include "device.hpp"

namespace {

int current = 0;
int choices = 0;
std::array<bool, 2> has_context = {};

CUresult context_state(CUdevice device, unsigned* flags, int* active) {
    *flags = 0;
    *active = has_context.at(static_cast<std::size_t>(device));
    return CUDA_SUCCESS;
}

cudaError_t driver_function(const char* name, void** found, cudaDriverEntryPointQueryResult* result) {
    const bool known = name == std::string("cuDevicePrimaryCtxGetState");
    *found = known ? reinterpret_cast<void*>(&context_state) : nullptr;
    *result = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDevice(int* device) {
    *device = current;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    current = device;
    choices += 1;
    has_context.at(static_cast<std::size_t>(device)) = true;
    return cudaSuccess;
}

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** found, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
    return driver_function(name, found, result);
}
#else
cudaError_t cudaGetDriverEntryPoint(const char* name, void** found, unsigned long long, cudaDriverEntryPointQueryResult* result) {
    return driver_function(name, found, result);
}
#endif

// What the rest of device.cpp calls.
cudaError_t cudaGetDeviceCount(int* count) { return *count = 2, cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) { return *status = cudaStreamCaptureStatusNone, cudaSuccess; }
const char* cudaGetErrorName(cudaError_t) { return ""; }
const char* cudaGetErrorString(cudaError_t) { return ""; }

}  // extern "C"

namespace {

using hushvec::test::check;

// A call on `device` by a thread whose device is `before`: what is current then, and how often a device was chosen.
void check_call(int before, int device, std::array<bool, 2> contexts, int current_then, int choices_then, const std::string& what) {
    current = before;
    has_context = contexts;
    choices = 0;
    {
        const hushvec::python::OnDevice on_device(device);
        check(current == device, what + ": the device of the call is current in it");
    }
    check(current == current_then, what + ": current after it is " + std::to_string(current));
    check(choices == choices_then, what + ": a device was chosen " + std::to_string(choices) + " times");
    contexts.at(static_cast<std::size_t>(device)) |= choices_then > 0;
    check(has_context == contexts, what + ": contexts on the devices of the call and from before alone");
}

}  // namespace

int main() {
    check_call(0, 0, {true, false}, 0, 0, "a call on the current device");
    check_call(1, 1, {false, true}, 1, 0, "a call on the second device, current");
    check_call(1, 0, {true, true}, 1, 2, "a call on another device");
    check_call(0, 1, {true, false}, 0, 2, "the first call on the second device");
    check_call(0, 1, {false, false}, 1, 1, "a call on the second device by a thread that never chose");
    return hushvec::test::summary();
}
