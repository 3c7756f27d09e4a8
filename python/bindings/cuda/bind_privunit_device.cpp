// PrivUnitG for Python arrays in CUDA memory. A call waits: the host settles the rows that float64 leaves open.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings.hpp"
#include "device_call.hpp"
#include "hushvec_cuda/privunit.hpp"

namespace hushvec::python {

namespace {

std::size_t privunit_workspace_bytes(const DeviceArray& x) {
    if (x.columns > cuda::kMostPrivUnitColumns) throw py::value_error("x must have rows of at most 2^30 elements, got shape " + x.shape);
    return cuda::privunit_workspace_bytes(x.rows, x.columns, x.dtype);
}

BadRow privunit_on_device(py::handle x, double cap_probability, double threshold, double sigma, py::handle out, py::handle source,
                          py::handle workspace, std::uintptr_t cuda_stream, bool whole) {
    const PrivUnitLaw law = {cap_probability, threshold};
    privunit_epsilon(law);   // its checks
    const ExactGrid grid = whole ? in_grid_units(privunit_int8_grid(sigma, threshold)) : privunit_grid(sigma);
    const DeviceArray from = device_array(x, "x"), to = device_output(out, "out");
    check_device_output_for(from, to);
    void* memory = device_memory(workspace, "workspace", privunit_workspace_bytes(from), from.device);
    const WipedSource noise(source, from.device);
    const KeyStream& stream = noise.host_stream();
    if (from.size() == 0) return std::nullopt;
    const cuda::RowsArgument rows = {from.data, to.data, from.dtype, from.rows, from.columns};
    const py::gil_scoped_release unlocked;
    const Launch launch(from.device, cuda_stream, memory);
    if (launch.capturing) throw std::runtime_error("privunit cannot be captured in a CUDA graph");
    check_cuda(cuda::privunit(stream, rows, law, grid, launch.workspace, launch.stream), "launching privunit");
    const cuda::Report report = launch.wait_for_report();
    if (report.open_samples > 0) {
        check_cuda(cuda::settle_privunit(stream, rows, law, grid, report, launch.workspace, launch.stream), "settling rows of privunit");
    }
    refuse_overflow(report);
    return bad_row(report);
}

}  // namespace

void bind_privunit_device(py::module_& module) {
    module.def("privunit_workspace_bytes", [](py::handle x) { return privunit_workspace_bytes(device_array(x, "x")); }, py::arg("x"));
    module.def("privunit", &privunit_on_device, py::arg("x"), py::arg("cap_probability"), py::arg("threshold"), py::arg("sigma"), py::arg("out"),
               py::arg("source"), py::arg("workspace"), py::arg("stream"), py::arg("whole") = false);
}

}  // namespace hushvec::python
