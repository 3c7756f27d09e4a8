#include "device.hpp"

#include <stdexcept>
#include <string>

namespace hushvec::python {
namespace {

// The oldest Linux driver for each CUDA version, from the release notes of the toolkit.
constexpr const char* kOldestDriver = CUDART_VERSION >= 13000 ? "580" : "525";

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

OnDevice::OnDevice(int device) {
    check_cuda(cudaGetDevice(&before_), "asking for the current device");
    if (before_ != device) check_cuda(cudaSetDevice(device), "choosing a device");
}

OnDevice::~OnDevice() { cudaSetDevice(before_); }

}  // namespace hushvec::python
