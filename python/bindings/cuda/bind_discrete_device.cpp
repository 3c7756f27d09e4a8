// Discrete choices on arrays in CUDA memory: arguments checked before anything is launched, GIL released, on the stream given.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "../array_rules.hpp"
#include "../response_law_argument.hpp"
#include "bindings.hpp"
#include "device_call.hpp"
#include "hushvec_cuda/discrete.hpp"
#include "hushvec_cuda/row_passes.hpp"

namespace hushvec::python {

namespace {

void check_labels(const DeviceIntegers& codes, std::uint64_t labels) {
    if (labels < 2 || labels > kMostLabels) throw py::value_error("labels must be in [2, 2^24], got " + std::to_string(labels));
    if (labels - 1 > codes.largest()) throw py::value_error("codes must have a dtype that holds " + std::to_string(labels - 1) + ", got " + codes.dtype);
}

cuda::CodesArgument argument_of(const DeviceIntegers& codes, const DeviceIntegers& out) {
    return {codes.data, out.data, codes.item_bytes, codes.count};
}

// Waits, and returns the place of the first code that is not in [0, labels), or None.
std::optional<std::uint64_t> copy_codes(py::handle codes, py::handle out, std::uint64_t labels, py::handle workspace, std::uintptr_t stream) {
    const DeviceIntegers from = device_integers(codes, "codes"), to = device_integers_like(from, out, "out");
    check_labels(from, labels);
    void* memory = device_memory(workspace, "workspace", cuda::report_bytes(), from.device);
    if (from.count == 0) return std::nullopt;
    const py::gil_scoped_release unlocked;
    const Launch launch(from.device, stream, memory);
    if (launch.capturing) throw std::runtime_error("randomized response cannot be captured in a CUDA graph, as codes are checked before anything is drawn");
    check_cuda(cuda::copy_codes(argument_of(from, to), labels, launch.workspace, launch.stream), "launching the check of codes");
    return bad_row(launch.wait_for_report());
}

// Answers in place: the codes are what copy_codes wrote.
void randomized_response(py::handle codes, std::uint64_t labels, const std::pair<std::uint64_t, std::uint64_t>& law, py::handle source,
                         std::uintptr_t stream) {
    const DeviceIntegers answers = device_integers_like(device_integers(codes, "codes"), codes, "codes");
    const ResponseLaw checked = response_law_argument(labels, law);
    check_labels(answers, labels);
    if (!is_key_capsule(source)) throw py::type_error("source must be a stream that a generator reserved");
    const WipedSource drawn(source, answers.device);
    const py::gil_scoped_release unlocked;
    const Launch launch(answers.device, stream, nullptr);
    launch.require_replayable(drawn);
    check_cuda(cuda::randomized_response(drawn.stream, checked, argument_of(answers, answers), launch.stream), "launching randomized response");
}

// nearest[row] of x's rows among those of `codes`. Nothing is reported: rows were found finite before.
void nearest_codes(py::handle x, py::handle codes, py::handle nearest, std::uintptr_t stream) {
    const DeviceArray rows = device_array(x, "x"), table = device_array(codes, "codes");
    if (rows.dtype == DType::float64) throw py::type_error("x must have dtype float32, float16 or bfloat16, got float64");
    if (table.dtype != DType::float32) throw py::type_error("codes must have dtype float32, got " + name_of(table.dtype));
    if (table.columns != rows.columns) throw py::value_error("codes must have the columns of x, " + rows.shape + ", got shape " + table.shape);
    if (table.rows < 1 || table.rows > kMostLabels) throw py::value_error("codes must be in [1, 2^24], got " + std::to_string(table.rows));
    if (table.device != rows.device) throw py::value_error("codes must be on the device of x");
    const DeviceIntegers out = device_integers_like({nullptr, sizeof(std::int32_t), true, rows.rows, rows.device, "int32", {}}, nearest, "nearest");
    const py::gil_scoped_release unlocked;
    const Launch launch(rows.device, stream, nullptr);
    check_cuda(cuda::nearest_codes({rows.data, nullptr, rows.dtype, rows.rows, rows.columns}, static_cast<const float*>(table.data), table.rows,
                                   static_cast<std::int32_t*>(out.data), launch.stream),
               "launching the search for nearest codes");
}

// Waits: what a word does not decide is settled on the host.
void fill_discrete(py::handle out, bool laplacian, double scale, py::handle source, py::handle workspace, std::uintptr_t cuda_stream) {
    const DeviceIntegers described = device_integers(out, "out"), samples = device_integers_like(described, out, "out");
    if (!samples.is_signed || samples.item_bytes < sizeof(std::int32_t)) throw py::type_error("out must be an array of int64 or int32, got " + samples.dtype);
    const DiscreteLaw law = laplacian ? DiscreteLaw::laplacian : DiscreteLaw::gaussian;
    check_discrete(law, scale, samples.item_bytes, samples.count);
    void* memory = device_memory(workspace, "workspace", cuda::discrete_workspace_bytes(samples.count), samples.device);
    const WipedSource drawn(source, samples.device);
    const KeyStream& stream = drawn.host_stream();
    const cuda::IntegersArgument argument = {samples.data, samples.item_bytes, samples.count};
    if (samples.count == 0) return;
    const py::gil_scoped_release unlocked;
    const Launch launch(samples.device, cuda_stream, memory);
    if (launch.capturing) throw std::runtime_error("discrete noise cannot be captured in a CUDA graph: the host settles what a word does not decide");
    check_cuda(cuda::discrete_noise(stream, law, scale, argument, launch.workspace, launch.stream), "launching discrete noise");
    const cuda::Report report = launch.wait_for_report();
    if (report.open_samples > 0) {
        check_cuda(cuda::settle_discrete(stream, law, scale, argument, report, launch.workspace, launch.stream), "settling discrete noise");
    }
    refuse_overflow(report);
}

}  // namespace

void bind_discrete_device(py::module_& module) {
    module.def("copy_codes", &copy_codes, py::arg("codes"), py::arg("out"), py::arg("labels"), py::arg("workspace"), py::arg("stream"));
    module.def("randomized_response", &randomized_response, py::arg("codes"), py::arg("labels"), py::arg("law"), py::arg("source"),
               py::arg("stream"));
    module.def("discrete_workspace_bytes", &cuda::discrete_workspace_bytes, py::arg("count"));
    module.def("fill_discrete", &fill_discrete, py::arg("out"), py::arg("laplacian"), py::arg("scale"), py::arg("source"), py::arg("workspace"),
               py::arg("stream"));
    module.def("nearest_codes", &nearest_codes, py::arg("x"), py::arg("codes"), py::arg("nearest"), py::arg("stream"));
}

}  // namespace hushvec::python
