// The device as a call meets it: is there a driver, which device is current, is the stream being recorded.
#pragma once

#include <cuda_runtime_api.h>

namespace hushvec::python {

// Throws std::runtime_error that names the driver needed and the one found.
void check_driver();

// Throws std::runtime_error with CUDA's own words.
void check_cuda(cudaError_t error, const char* doing);

// Inside a CUDA graph capture nothing may wait for the device.
bool is_capturing(cudaStream_t stream);

// Makes a device the current one of this thread until the scope ends; longer where the one before has no context, which setting it would make.
class OnDevice {
public:
    explicit OnDevice(int device);
    ~OnDevice();
    OnDevice(const OnDevice&) = delete;
    OnDevice& operator=(const OnDevice&) = delete;

private:
    int device_;
    int before_ = 0;
};

}  // namespace hushvec::python
