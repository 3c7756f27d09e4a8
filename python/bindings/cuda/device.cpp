#include "device.hpp"

#include <cuda.h>

#include <stdexcept>
#include <string>

namespace hushvec::python {
namespace {

// The oldest Linux driver for each CUDA version, from the release notes of the toolkit.
constexpr const char* kOldestDriver = CUDART_VERSION >= 13000 ? "580" : "525";

// The runtime has no such question, and asking the driver links nothing: null where it does not answer.
auto* context_state() {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    const cudaError_t error = cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", &found, 12000, cudaEnableDefault, &result);
#else
    const cudaError_t error = cudaGetDriverEntryPoint("cuDevicePrimaryCtxGetState", &found, cudaEnableDefault, &result);
#endif
    if (error != cudaSuccess || result != cudaDriverEntryPointSuccess) found = nullptr;
    return reinterpret_cast<decltype(&cuDevicePrimaryCtxGetState)>(found);
}

bool may_have_context(int device) {
    static const auto state = context_state();
    unsigned flags = 0;
    int active = 0;
    return state == nullptr || state(device, &flags, &active) != CUDA_SUCCESS || active != 0;
}

std::string version_text(int version) { return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10); }

}  // namespace

void check_driver() {
    int devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&devices);
    if (error == cudaSuccess) return;
    int driver = 0;
    const bool found = cudaDriverGetVersion(&driver) == cudaSuccess && driver != 0;
    const std::string which = found ? "one for CUDA " + version_text(driver) : "none";
    if (driver / 1000 >= CUDART_VERSION / 1000) {   // the driver would do: no device, or a child of a process that used CUDA
        throw std::runtime_error("CUDA cannot be used in this process (driver: " + which + "): " + cudaGetErrorString(error));
    }
    throw std::runtime_error("the CUDA backend of hushvec needs an NVIDIA driver " + std::string(kOldestDriver) + " or newer (CUDA " +
                             version_text(CUDART_VERSION) + "), found " + which + ": " + cudaGetErrorString(error));
}

void check_cuda(cudaError_t error, const char* doing) {
    if (error == cudaSuccess) return;
    throw std::runtime_error(std::string(doing) + " failed: " + cudaGetErrorName(error) + ", " + cudaGetErrorString(error));
}

bool is_capturing(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    check_cuda(cudaStreamIsCapturing(stream, &status), "asking whether a stream is being captured");
    return status != cudaStreamCaptureStatusNone;
}

OnDevice::OnDevice(int device) : device_(device) {
    check_cuda(cudaGetDevice(&before_), "asking for the current device");
    if (before_ != device_) check_cuda(cudaSetDevice(device_), "choosing a device");
}

// Since CUDA 12 cudaSetDevice makes a context, which takes hundreds of megabytes of the device. Where there is none nobody has chosen
// `before_`: it is what a thread has that never chose, and stays behind, as with torch's guards.
OnDevice::~OnDevice() {
    if (before_ != device_ && may_have_context(before_)) cudaSetDevice(before_);
}

}  // namespace hushvec::python
