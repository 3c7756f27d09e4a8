#include <cuda_runtime_api.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>

#include "bindings.hpp"
#include "device_call.hpp"
#include "hushvec_cuda/launch.hpp"

namespace hushvec::python {

namespace {

// For the tests: what was read from an array, on whatever device it lies.
py::dict described(py::handle array) {
    const Described found = describe(array, "x");
    py::dict report;
    report["way"] = found.way;
    report["data"] = found.data;
    report["dtype"] = py::make_tuple(found.dtype.code, found.dtype.bits, found.dtype.lanes);
    report["shape"] = py::tuple(py::cast(found.shape));
    report["strides"] = py::tuple(py::cast(found.strides));
    report["device"] = found.device ? py::object(py::make_tuple(found.device->type, found.device->id)) : py::none();
    report["writable"] = found.writable;
    return report;
}

// Makes an array of six 64-bit words on the device the start of a stream. Waits: whatever draws from it may be on another stream.
void write_state(py::handle state, py::handle source, int device, std::uintptr_t stream_handle) {
    void* const memory = device_memory(state, "state", cuda::kDeviceStreamBytes, device);
    const WipedSource noise(source, device);
    const StateWords words(noise.host_stream());
    const py::gil_scoped_release unlocked;
    const OnDevice current(device);
    const auto stream = reinterpret_cast<cudaStream_t>(stream_handle);
    check_cuda(cudaMemcpyAsync(memory, words.data(), sizeof words, cudaMemcpyHostToDevice, stream), "writing a state");
    check_cuda(cudaStreamSynchronize(stream), "writing a state");
}

}  // namespace

void bind_device(py::module_& module) {
    module.def("check_driver", &check_driver);
    module.def("current_stream", &current_stream, py::arg("x"), py::arg("device"));
    module.def("is_capturing", [](std::uintptr_t stream, int device) {
        const OnDevice current(device);
        return is_capturing(reinterpret_cast<cudaStream_t>(stream));
    }, py::arg("stream"), py::arg("device"));
    // Before the first capture on a device, which must not contain what the driver does at a kernel's first launch.
    module.def("load_kernels", [](int device) {
        const OnDevice current(device);
        check_cuda(cuda::load_kernels(), "loading the kernels");
    }, py::arg("device"));
    module.def("write_state", &write_state, py::arg("state"), py::arg("source"), py::arg("device"), py::arg("stream"));
    py::module_ testing = module.def_submodule("_testing", "Hooks for the tests of hushvec; not part of its interface.");
    testing.def("describe", &described, py::arg("x"));
}

}  // namespace hushvec::python
