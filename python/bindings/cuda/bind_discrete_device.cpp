// Discrete choices on arrays in CUDA memory: arguments checked before anything is launched, GIL released, on the stream given.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "../response_law_argument.hpp"
#include "bindings.hpp"
#include "device_array.hpp"
#include "hushvec_cuda/discrete.hpp"
#include "hushvec_cuda/row_passes.hpp"
#include "launched_call.hpp"

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
    const cuda::NoiseSource drawn = noise_source(source, answers.device);
    const py::gil_scoped_release unlocked;
    const Launch launch(answers.device, stream, nullptr);
    launch.require_replayable(drawn);
    check_cuda(cuda::randomized_response(drawn.stream, checked, argument_of(answers, answers), launch.stream), "launching randomized response");
}

}  // namespace

void bind_discrete_device(py::module_& module) {
    module.def("copy_codes", &copy_codes, py::arg("codes"), py::arg("out"), py::arg("labels"), py::arg("workspace"), py::arg("stream"));
    module.def("randomized_response", &randomized_response, py::arg("codes"), py::arg("labels"), py::arg("law"), py::arg("source"),
               py::arg("stream"));
}

}  // namespace hushvec::python
