// The launchers for Python arrays: arguments checked before anything is launched, GIL released, on the stream given.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "../array_rules.hpp"
#include "bindings.hpp"
#include "array/validate.hpp"
#include "device_call.hpp"
#include "hushvec/clipped_sum.hpp"
#include "hushvec_cuda/launch.hpp"
#include "hushvec_cuda/row_passes.hpp"

namespace hushvec::python {

namespace {

using cuda::NoiseSource;
using cuda::Report;

Law law_named(const std::string& name) {
    if (name == "gaussian") return Law::gaussian;
    if (name == "laplacian") return Law::laplacian;
    if (name == "l2_laplace") return Law::l2_laplace;
    throw py::value_error("law must be gaussian, laplacian or l2_laplace on CUDA, got " + name);
}

cuda::OutArgument samples_of(const DeviceArray& out) { return {out.data, out.dtype, out.size()}; }

std::size_t workspace_bytes(const DeviceArray& rows, Law law) {
    if (law == Law::l2_laplace) return cuda::l2_laplace_workspace_bytes(rows.rows, rows.columns, rows.dtype);
    return cuda::workspace_bytes(rows.rows, rows.columns, rows.dtype);
}

cudaError_t launch_fill(const NoiseSource& noise, Law law, double scale, const DeviceArray& out, const Launch& launch) {
    if (law != Law::l2_laplace) return cuda::fill_noise(noise, law, scale, samples_of(out), launch.workspace, launch.stream);
    return cuda::l2_laplace(noise, {nullptr, out.data, out.dtype, out.rows, out.columns}, 1.0, scale, launch.workspace, launch.stream);
}

// The workspace is read where the source is a state, or the law l2_laplace.
void fill(py::handle out, const std::string& law_name, double scale, py::handle source, py::handle workspace, std::uintptr_t stream) {
    const Law law = law_named(law_name);
    check_scale(law == Law::gaussian ? "sigma" : "scale", scale);
    const DeviceArray target = device_output(out, "out");
    const WipedSource noise(source, target.device);
    void* memory = nullptr;
    if (law == Law::l2_laplace) memory = device_memory(workspace, "workspace", workspace_bytes(target, law), target.device);
    else if (noise.state != nullptr) memory = device_memory(workspace, "workspace", cuda::fill_workspace_bytes(), target.device);
    const py::gil_scoped_release unlocked;
    const Launch launch(target.device, stream, memory);
    launch.require_replayable(noise);
    check_cuda(launch_fill(noise, law, scale, target, launch), "launching the noise");
}

// x, out and the workspace of a call on rows.
struct Rows {
    DeviceArray x;
    DeviceArray out;
    void* workspace;

    Rows(py::handle x_array, py::handle out_array, py::handle workspace_array, Law law = Law::gaussian)
        : x(device_array(x_array, "x")), out(device_output(out_array, "out")) {
        check_device_output_for(x, out);
        workspace = device_memory(workspace_array, "workspace", workspace_bytes(x, law), x.device);
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

BadRow find_bad_row(py::handle x, py::handle workspace, std::uintptr_t stream) {
    const DeviceArray rows = device_array(x, "x");
    void* memory = device_memory(workspace, "workspace", cuda::report_bytes(), rows.device);
    if (rows.size() == 0) return std::nullopt;
    const py::gil_scoped_release unlocked;
    const Launch launch(rows.device, stream, memory);
    launch.refuse_capture_of_checks();
    check_cuda(cuda::find_bad_row({rows.data, nullptr, rows.dtype, rows.rows, rows.columns}, launch.workspace, launch.stream),
               "launching the search for NaN and Inf");
    return bad_row(launch.wait_for_report());
}

// Without a workspace nothing is reported, and nobody waits.
BadRow unit_rows(py::handle x, py::handle out, const py::object& workspace, std::uintptr_t stream) {
    const DeviceArray from = device_array(x, "x"), to = device_output(out, "out");
    check_device_output_for(from, to);
    const bool checks = !workspace.is_none();
    void* memory = checks ? device_memory(workspace, "workspace", cuda::report_bytes(), from.device) : nullptr;
    if (from.size() == 0) return std::nullopt;
    const py::gil_scoped_release unlocked;
    const Launch launch(from.device, stream, memory);
    if (checks) launch.refuse_capture_of_checks();
    check_cuda(cuda::unit_rows({from.data, to.data, from.dtype, from.rows, from.columns}, launch.workspace, launch.stream),
               "launching unit_rows");
    return checks ? bad_row(launch.wait_for_report()) : std::nullopt;
}

// Waits, and settles the samples that the kernels of an exact release left open.
BadRow finish(const Launch& launch, const NoiseSource& source, const DeviceArray& out, Law law, ExactGrid grid) {
    const Report report = launch.wait_for_report();
    if (report.open_samples > 0 && source.state == nullptr) {
        check_cuda(cuda::settle(source.stream, samples_of(out), law, grid, launch.workspace, launch.stream), "launching settle");
    }
    refuse_overflow(report);
    return bad_row(report);
}

BadRow clip_and_noise(py::handle x, double clip_norm, double sigma, py::handle out, py::handle source, const std::string& law_name,
                      bool exact, py::handle workspace, std::uintptr_t stream, bool whole) {
    check_clip_norm(clip_norm);
    const Law law = law_named(law_name);
    check_scale(law == Law::gaussian ? "sigma" : "scale", sigma);
    if (exact && law == Law::l2_laplace) throw py::value_error("exact must be False for law l2_laplace, got True");
    if (whole) check_int8(law, sigma, exact);
    const Rows rows(x, out, workspace, law);
    if (sigma == 0) return clip_rows(rows, clip_norm, stream);
    const WipedSource noise(source, rows.x.device);
    const ExactGrid grid = whole   ? int8_grid(sigma, clip_norm)
                           : exact ? exact_grid(sigma, clip_norm, is_half_words(noise))
                                   : ExactGrid{0, 0};
    const py::gil_scoped_release unlocked;
    const Launch launch(rows.x.device, stream, rows.workspace);
    launch.require_replayable(noise);
    if (law == Law::l2_laplace) {
        check_cuda(cuda::l2_laplace(noise, rows.argument(), clip_norm, sigma, launch.workspace, launch.stream), "launching l2_laplace");
        return launch.capturing ? std::nullopt : bad_row(launch.wait_for_report());
    }
    check_cuda(cuda::clip_and_noise(noise, rows.argument(), clip_norm, sigma, law, grid, launch.workspace, launch.stream, whole),
               "launching clip_and_noise");
    return launch.capturing ? std::nullopt : finish(launch, noise, rows.out, law, whole ? in_grid_units(grid) : grid);
}

// What clip_and_noise and privunit have written with `whole`.
void int8_values(py::handle numbers, py::handle out, std::uintptr_t stream) {
    const DeviceArray from = device_array(numbers, "numbers");
    const DeviceIntegers to = device_integers_like({from.data, 1, true, from.size(), from.device, "int8", from.owner}, out, "out");
    const py::gil_scoped_release unlocked;
    const Launch launch(from.device, stream, nullptr);
    check_cuda(cuda::int8_values(samples_of(from), static_cast<std::int8_t*>(to.data), launch.stream), "launching int8_values");
}

// Exact rounding on a device takes sums of at most this many grids, which all rows pointing one way must not exceed.
constexpr double kLargestSum = 0x1p21;

// The most rows of a sum that is released with this noise.
std::size_t most_rows_of_sum(double clip_norm, double sigma) {
    check_clip_norm(clip_norm);
    check_scale("sigma", sigma);
    if (sigma == 0) return kMostRowsOfASum;
    return std::min(kMostRowsOfASum, static_cast<std::size_t>(kLargestSum * double{exact_grid(sigma, clip_norm).grid} / clip_norm));
}

cuda::PartArgument argument_of(const DeviceArray& part) { return {part.data, part.dtype, part.rows, part.columns}; }

// The parts of one batch of rows.
struct Parts {
    std::vector<cuda::PartArgument> arguments;
    int device = 0;

    explicit Parts(const py::sequence& parts) {
        for (const py::handle part : parts) {
            const DeviceArray array = device_array(part, "parts");
            if (arguments.empty()) device = array.device;
            arguments.push_back(argument_of(array));
            if (array.rows != arguments.front().rows) throw py::value_error("parts must have the same number of rows");
            if (array.device != device) throw py::value_error("parts must be on one device");
        }
        if (arguments.empty()) throw py::value_error("parts must hold at least one array, got none");
    }

    std::size_t workspace_bytes() const { return cuda::sum_scales_workspace_bytes(arguments); }
};

BadRow sum_scales(const py::sequence& parts, double clip_norm, py::handle workspace, std::uintptr_t stream) {
    check_clip_norm(clip_norm);
    const Parts rows(parts);
    void* memory = device_memory(workspace, "workspace", rows.workspace_bytes(), rows.device);
    const py::gil_scoped_release unlocked;
    const Launch launch(rows.device, stream, memory);
    launch.refuse_capture_of_sums();
    check_cuda(cuda::sum_scales(rows.arguments, clip_norm, launch.workspace, launch.stream), "launching the norms of rows");
    return bad_row(launch.wait_for_report());
}

// An array of one dimension, as long as a row of the part.
void check_vector(const DeviceArray& vector, const std::string& name, std::size_t length, DType dtype, int device) {
    const std::string shape = "(" + std::to_string(length) + ",)";
    if (vector.shape != shape) throw py::value_error(name + " must have shape " + shape + ", got " + vector.shape);
    if (vector.dtype != dtype) throw py::type_error(name + " must have dtype " + name_of(dtype) + ", got " + name_of(vector.dtype));
    if (vector.device != device) throw py::value_error(name + " must be on the device of the sum");
}

void add_to_sum(py::handle x, py::handle workspace, py::handle sums, std::uintptr_t stream) {
    const DeviceArray part = device_array(x, "parts");
    const cuda::PartArgument argument = argument_of(part);
    const DeviceArray target = device_output(sums, "sums");
    check_vector(target, "sums", part.columns, DType::float64, part.device);
    void* memory = device_memory(workspace, "workspace", cuda::sum_scales_workspace_bytes({&argument, 1}), part.device);
    const py::gil_scoped_release unlocked;
    const Launch launch(part.device, stream, memory);
    launch.refuse_capture_of_sums();
    check_cuda(cuda::add_to_sum(argument, launch.workspace, static_cast<double*>(target.data), launch.stream), "launching the sum of rows");
}

// With coefficients, of a release with correlated noise.
std::size_t release_workspace_bytes(const std::vector<std::size_t>& columns, const std::vector<float>& coefficients) {
    std::vector<cuda::SumArgument> parts;
    for (const std::size_t length : columns) parts.push_back({nullptr, nullptr, length});
    return coefficients.empty() ? cuda::release_sums_workspace_bytes(parts) : cuda::release_correlated_workspace_bytes(coefficients, parts);
}

// The parts of a sum and what their releases are written to.
struct SumsAndOutputs {
    std::vector<cuda::SumArgument> parts;
    int device = 0;

    SumsAndOutputs(const py::sequence& sums, const py::sequence& out) {
        if (sums.size() == 0) throw py::value_error("sums must hold at least one array, got none");
        if (out.size() != sums.size()) {
            throw py::value_error("out must have " + std::to_string(sums.size()) + " arrays, got " + std::to_string(out.size()));
        }
        for (std::size_t i = 0; i < sums.size(); ++i) {
            const std::string from_name = "sums[" + std::to_string(i) + "]", to_name = "out[" + std::to_string(i) + "]";
            const DeviceArray from = device_array(sums[i], from_name.c_str()), to = device_output(out[i], to_name.c_str());
            if (i == 0) device = from.device;
            check_vector(from, from_name, from.size(), DType::float64, device);
            check_vector(to, to_name, from.size(), DType::float32, device);
            parts.push_back({static_cast<const double*>(from.data), static_cast<float*>(to.data), from.size()});
        }
    }
};

// Calls release(launch), waits, and calls settle(launch) where samples were left open.
template <class Release, class Settle>
void release_and_settle(int device, std::uintptr_t stream, void* memory, const Release& release, const Settle& settle) {
    const py::gil_scoped_release unlocked;
    const Launch launch(device, stream, memory);
    launch.refuse_capture_of_sums();
    check_cuda(release(launch), "launching the noise of sums");
    const Report report = launch.wait_for_report();
    if (report.open_samples > 0) check_cuda(settle(launch), "launching settle");
    refuse_overflow(report);
}

// Part i draws from the i-th nonce of the source, which has one reserved for each.
void release_sums(const py::sequence& sums, double clip_norm, double sigma, const py::sequence& out, py::handle source, py::handle workspace,
                  std::uintptr_t stream) {
    check_clip_norm(clip_norm);
    const SumsAndOutputs arrays(sums, out);
    void* memory = device_memory(workspace, "workspace", cuda::release_sums_workspace_bytes(arrays.parts), arrays.device);
    const WipedSource noise(source, arrays.device);
    const KeyStream& drawn = noise.host_stream();
    const ExactGrid grid = exact_grid(sigma, clip_norm, drawn.half_words);
    release_and_settle(
        arrays.device, stream, memory,
        [&](const Launch& on) { return cuda::release_sums(drawn, arrays.parts, clip_norm, grid, on.workspace, on.stream); },
        [&](const Launch& on) { return cuda::settle_sums(drawn, arrays.parts, grid, on.workspace, on.stream); });
}

// Streams that were reserved, one for each coefficient; each part begins at a group of its own.
void release_correlated(const py::sequence& sums, double clip_norm, double sigma, const py::sequence& out, const py::sequence& sources,
                        const std::vector<float>& coefficients, py::handle workspace, std::uintptr_t stream) {
    check_clip_norm(clip_norm);
    check_scale("sigma", sigma);
    if (sigma == 0) throw py::value_error("sigma must be > 0 where noise is correlated, got 0");
    const SumsAndOutputs arrays(sums, out);
    const ExactGrid grid = exact_grid(sigma, clip_norm);
    if (sources.size() != coefficients.size()) throw py::value_error("sources must be as many as coefficients");
    if (coefficients.size() > cuda::kMostNoiseTerms) {
        throw py::value_error("coefficients must be at most " + std::to_string(cuda::kMostNoiseTerms) + " on a device, got " + std::to_string(coefficients.size()));
    }
    std::vector<std::unique_ptr<WipedSource>> drawn;
    std::vector<NoiseTerm> terms;
    for (std::size_t term = 0; term < coefficients.size(); ++term) {
        drawn.push_back(std::make_unique<WipedSource>(sources[term], arrays.device));
        terms.push_back({&drawn.back()->host_stream(), coefficients[term]});
    }
    check_noise_terms(terms);
    void* memory = device_memory(workspace, "workspace", cuda::release_correlated_workspace_bytes(coefficients, arrays.parts), arrays.device);
    release_and_settle(
        arrays.device, stream, memory,
        [&](const Launch& on) { return cuda::release_correlated(terms, arrays.parts, clip_norm, grid, on.workspace, on.stream); },
        [&](const Launch& on) { return cuda::settle_correlated(terms, arrays.parts, grid, on.workspace, on.stream); });
}

}  // namespace

void bind_launch(py::module_& module) {
    module.def("workspace_bytes", [](py::handle x, const std::string& law) { return workspace_bytes(device_array(x, "x"), law_named(law)); },
               py::arg("x"), py::arg("law") = "gaussian");
    module.def("fill", &fill, py::arg("out"), py::arg("law"), py::arg("scale"), py::arg("source"), py::arg("workspace"),
               py::arg("stream"));
    module.def("fill_workspace_bytes", &cuda::fill_workspace_bytes);
    module.def("clip", &clip, py::arg("x"), py::arg("clip_norm"), py::arg("out"), py::arg("workspace"), py::arg("stream"));
    module.def("clip_and_noise", &clip_and_noise, py::arg("x"), py::arg("clip_norm"), py::arg("sigma"), py::arg("out"), py::arg("source"),
               py::arg("law"), py::arg("exact"), py::arg("workspace"), py::arg("stream"), py::arg("whole") = false);
    module.def("int8_values", &int8_values, py::arg("numbers"), py::arg("out"), py::arg("stream"));
    module.def("report_bytes", &cuda::report_bytes);
    module.def("find_bad_row", &find_bad_row, py::arg("x"), py::arg("workspace"), py::arg("stream"));
    module.def("unit_rows", &unit_rows, py::arg("x"), py::arg("out"), py::arg("workspace"), py::arg("stream"));
    module.def("most_rows_of_sum", &most_rows_of_sum, py::arg("clip_norm"), py::arg("sigma"));
    module.def("sum_workspace_bytes", [](const py::sequence& parts) { return Parts(parts).workspace_bytes(); }, py::arg("parts"));
    module.def("sum_scales", &sum_scales, py::arg("parts"), py::arg("clip_norm"), py::arg("workspace"), py::arg("stream"));
    module.def("add_to_sum", &add_to_sum, py::arg("part"), py::arg("workspace"), py::arg("sums"), py::arg("stream"));
    module.def("release_workspace_bytes", &release_workspace_bytes, py::arg("columns"), py::arg("coefficients") = std::vector<float>());
    module.def("release_sums", &release_sums, py::arg("sums"), py::arg("clip_norm"), py::arg("sigma"), py::arg("out"), py::arg("source"),
               py::arg("workspace"), py::arg("stream"));
    module.def("release_correlated", &release_correlated, py::arg("sums"), py::arg("clip_norm"), py::arg("sigma"), py::arg("out"),
               py::arg("sources"), py::arg("coefficients"), py::arg("workspace"), py::arg("stream"));
}

}  // namespace hushvec::python
