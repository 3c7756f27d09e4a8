// The launchers for Python arrays: arguments checked before anything is launched, GIL released, on the stream given.
//
// A call that nobody records waits for its Report and returns the number of the first row with NaN or Inf, or None. Inside a
// graph capture it cannot, and its noise must come from memory on the device, so that a replay draws anew.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "../array_rules.hpp"
#include "../key_capsule.hpp"
#include "bindings.hpp"
#include "clip/validate.hpp"
#include "device.hpp"
#include "device_array.hpp"
#include "hushvec_cuda/launch.hpp"

namespace hushvec::python {

namespace {

using cuda::NoiseSource;
using cuda::Report;

using BadRow = std::optional<std::uint64_t>;

static_assert(sizeof(StateWords) == cuda::kDeviceStreamBytes);

Law law_named(const std::string& name) {
    if (name == "gaussian") return Law::gaussian;
    if (name == "laplacian") return Law::laplacian;
    throw py::value_error("law must be gaussian or laplacian on CUDA, got " + name);
}

// A capsule of _core.Generator._reserve, or an array of six 64-bit words on the device.
NoiseSource noise_source(py::handle source, int device) {
    NoiseSource result;
    if (is_key_capsule(source)) {
        result.stream = stream_of(source);
        if (result.stream.cipher == Cipher::aes256) throw py::value_error("source must be a stream of ChaCha on a device, got one of aes256");
    } else {
        result.state = static_cast<cuda::DeviceStream*>(device_memory(source, "state", cuda::kDeviceStreamBytes, device));
    }
    return result;
}

// One call's device, stream and workspace.
struct Launch {
    OnDevice device;
    cudaStream_t stream;
    void* workspace;
    bool capturing;

    Launch(int device_id, std::uintptr_t stream_handle, void* memory)
        : device(device_id), stream(reinterpret_cast<cudaStream_t>(stream_handle)), workspace(memory), capturing(is_capturing(stream)) {}

    void require_replayable(const NoiseSource& source) const {
        if (capturing && source.state == nullptr) {
            throw std::runtime_error("noise inside a CUDA graph capture must come from a state on the device, got a stream that each replay would repeat");
        }
    }

    Report wait_for_report() const {
        Report report = {};
        check_cuda(cudaMemcpyAsync(&report, workspace, sizeof report, cudaMemcpyDeviceToHost, stream), "reading the report of a call");
        check_cuda(cudaStreamSynchronize(stream), "a CUDA call");
        return report;
    }
};

BadRow bad_row(const Report& report) {
    return report.first_bad_row == cuda::kNoRow ? std::nullopt : BadRow(report.first_bad_row);
}

cuda::OutArgument samples_of(const DeviceArray& out) { return {out.data, out.dtype, out.size()}; }

// The workspace is read where the source is a state.
void fill(py::handle out, const std::string& law_name, double scale, py::handle source, py::handle workspace, std::uintptr_t stream) {
    const Law law = law_named(law_name);
    check_scale(law == Law::gaussian ? "sigma" : "scale", scale);
    const DeviceArray target = device_output(out, "out");
    const NoiseSource noise = noise_source(source, target.device);
    void* memory = noise.state == nullptr ? nullptr : device_memory(workspace, "workspace", cuda::fill_workspace_bytes(), target.device);
    const py::gil_scoped_release unlocked;
    const Launch launch(target.device, stream, memory);
    launch.require_replayable(noise);
    check_cuda(cuda::fill_noise(noise, law, scale, samples_of(target), launch.workspace, launch.stream), "launching the noise");
}

// x, out and the workspace of a call on rows.
struct Rows {
    DeviceArray x;
    DeviceArray out;
    void* workspace;

    Rows(py::handle x_array, py::handle out_array, py::handle workspace_array)
        : x(device_array(x_array, "x")), out(device_output(out_array, "out")) {
        check_device_output_for(x, out);
        workspace = device_memory(workspace_array, "workspace", cuda::workspace_bytes(x.rows, x.columns, x.dtype), x.device);
    }

    cuda::RowsArgument argument() const { return {x.data, out.data, x.dtype, x.rows, x.columns}; }
};

BadRow clip_rows(const Rows& rows, double clip_norm, std::uintptr_t stream) {
    if (rows.x.size() == 0) return std::nullopt;
    const py::gil_scoped_release unlocked;
    const Launch launch(rows.x.device, stream, rows.workspace);
    check_cuda(cuda::clip(rows.argument(), clip_norm, launch.workspace, launch.stream), "launching clip");
    return launch.capturing ? std::nullopt : bad_row(launch.wait_for_report());
}

BadRow clip(py::handle x, double clip_norm, py::handle out, py::handle workspace, std::uintptr_t stream) {
    check_clip_norm(clip_norm);
    return clip_rows(Rows(x, out, workspace), clip_norm, stream);
}

// Waits, and settles the samples that the kernels of an exact release left open.
BadRow finish(const Launch& launch, const NoiseSource& source, const DeviceArray& out, Law law, ExactGrid grid) {
    const Report report = launch.wait_for_report();
    if (report.overflow != 0) throw std::runtime_error("too many samples were left open for the workspace: the result must not be used");
    if (report.open_samples > 0 && source.state == nullptr) {
        check_cuda(cuda::settle(source.stream, samples_of(out), law, grid, launch.workspace, launch.stream), "launching settle");
    }
    return bad_row(report);
}

BadRow clip_and_noise(py::handle x, double clip_norm, double sigma, py::handle out, py::handle source, const std::string& law_name,
                      bool exact, py::handle workspace, std::uintptr_t stream) {
    check_clip_norm(clip_norm);
    const Law law = law_named(law_name);
    check_scale(law == Law::gaussian ? "sigma" : "scale", sigma);
    const Rows rows(x, out, workspace);
    if (sigma == 0) return clip_rows(rows, clip_norm, stream);
    const ExactGrid grid = exact ? exact_grid(sigma, clip_norm) : ExactGrid{0, 0};
    const NoiseSource noise = noise_source(source, rows.x.device);
    const py::gil_scoped_release unlocked;
    const Launch launch(rows.x.device, stream, rows.workspace);
    launch.require_replayable(noise);
    check_cuda(cuda::clip_and_noise(noise, rows.argument(), clip_norm, sigma, law, grid, launch.workspace, launch.stream),
               "launching clip_and_noise");
    return launch.capturing ? std::nullopt : finish(launch, noise, rows.out, law, grid);
}

// Exact rounding on a device takes sums of at most this many grids, which all rows pointing one way must not exceed.
constexpr double kLargestSum = 0x1p21;

// The exact noisy sum of clipped rows.
BadRow clip_sum_and_noise(py::handle x, double clip_norm, double sigma, py::handle out, py::handle source, py::handle workspace,
                          std::uintptr_t stream) {
    check_clip_norm(clip_norm);
    const DeviceArray rows = device_array(x, "x");
    if (rows.dtype == DType::float64) throw py::type_error("x must have dtype float32, float16 or bfloat16, got float64");
    const DeviceArray target = device_output(out, "out");
    const std::string shape = "(" + std::to_string(rows.columns) + ",)";
    if (target.shape != shape) throw py::value_error("out must have shape " + shape + ", got " + target.shape);
    if (target.dtype != DType::float32) throw py::type_error("out must have dtype float32, got " + name_of(target.dtype));
    if (target.device != rows.device) throw py::value_error("out must be on the device of x");
    const ExactGrid grid = exact_grid(sigma, clip_norm);
    const auto most_rows = static_cast<std::size_t>(kLargestSum * double{grid.grid} / clip_norm);
    if (rows.rows > most_rows) {
        throw py::value_error("x must have at most " + std::to_string(most_rows) + " rows on a device with this clip_norm and sigma, got " +
                              std::to_string(rows.rows));
    }
    void* memory = device_memory(workspace, "workspace", cuda::sum_workspace_bytes(rows.rows, rows.columns), rows.device);
    const NoiseSource noise = noise_source(source, rows.device);
    const py::gil_scoped_release unlocked;
    const Launch launch(rows.device, stream, memory);
    launch.require_replayable(noise);
    const cuda::RowsArgument argument = {rows.data, target.data, rows.dtype, rows.rows, rows.columns};
    check_cuda(cuda::clip_sum_and_noise(noise, argument, clip_norm, grid, launch.workspace, launch.stream), "launching clip_sum_and_noise");
    return launch.capturing ? std::nullopt : finish(launch, noise, target, Law::gaussian, grid);
}

}  // namespace

void bind_launch(py::module_& module) {
    module.def("workspace_bytes", [](py::handle x) {
        const DeviceArray rows = device_array(x, "x");
        return cuda::workspace_bytes(rows.rows, rows.columns, rows.dtype);
    }, py::arg("x"));
    module.def("fill", &fill, py::arg("out"), py::arg("law"), py::arg("scale"), py::arg("source"), py::arg("workspace"),
               py::arg("stream"));
    module.def("fill_workspace_bytes", &cuda::fill_workspace_bytes);
    module.def("clip", &clip, py::arg("x"), py::arg("clip_norm"), py::arg("out"), py::arg("workspace"), py::arg("stream"));
    module.def("clip_and_noise", &clip_and_noise, py::arg("x"), py::arg("clip_norm"), py::arg("sigma"), py::arg("out"), py::arg("source"),
               py::arg("law"), py::arg("exact"), py::arg("workspace"), py::arg("stream"));
    module.def("sum_workspace_bytes", [](py::handle x) {
        const DeviceArray rows = device_array(x, "x");
        return cuda::sum_workspace_bytes(rows.rows, rows.columns);
    }, py::arg("x"));
    module.def("clip_sum_and_noise", &clip_sum_and_noise, py::arg("x"), py::arg("clip_norm"), py::arg("sigma"), py::arg("out"),
               py::arg("source"), py::arg("workspace"), py::arg("stream"));
}

}  // namespace hushvec::python
