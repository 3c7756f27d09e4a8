// What the calls on a device share: where their noise comes from, the stream they run on, what they report.
//
// A call that nobody records waits for its Report and returns the number of the first row with NaN or Inf, or None. Inside a
// graph capture it cannot, and its noise must come from memory on the device, so that a replay draws anew.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <stdexcept>

#include "../key_capsule.hpp"
#include "device.hpp"
#include "device_array.hpp"
#include "hushvec/stack_frames.hpp"
#include "hushvec/wipe.hpp"
#include "hushvec_cuda/source.hpp"

namespace hushvec::python {

using BadRow = std::optional<std::uint64_t>;

static_assert(sizeof(StateWords) == cuda::kDeviceStreamBytes);

// A capsule of _core.Generator._reserve, or an array of six 64-bit words on the device. The copy of the key is wiped when the call ends,
// with the stack frames of what worked with it; what the driver keeps of a kernel's parameters is out of reach.
struct WipedSource : cuda::NoiseSource {
    WipedSource(py::handle source, int device) {
        if (!is_key_capsule(source)) {
            state = static_cast<cuda::DeviceStream*>(device_memory(source, "state", cuda::kDeviceStreamBytes, device));
            return;
        }
        const KeyStream& reserved = stream_of(source);
        if (reserved.cipher == Cipher::aes256) throw py::value_error("source must be a stream of ChaCha on a device, got one of aes256");
        stream = reserved;
    }
    ~WipedSource() {
        wipe(&stream, sizeof stream);
        wipe_stack_below();
    }
    WipedSource(const WipedSource&) = delete;
    WipedSource& operator=(const WipedSource&) = delete;

    // For calls that a state will not do for.
    const KeyStream& host_stream() const {
        if (state != nullptr) throw py::value_error("source must be a stream of a generator, got a state on a device");
        return stream;
    }
};

// One call's device, stream and workspace.
struct Launch {
    OnDevice device;
    cudaStream_t stream;
    void* workspace;
    bool capturing;

    Launch(int device_id, std::uintptr_t stream_handle, void* memory)
        : device(device_id), stream(reinterpret_cast<cudaStream_t>(stream_handle)), workspace(memory), capturing(is_capturing(stream)) {}

    void require_replayable(const cuda::NoiseSource& source) const {
        if (capturing && source.state == nullptr) {
            throw std::runtime_error("noise inside a CUDA graph capture must come from a state on the device, got a stream that each replay would repeat");
        }
    }

    // Sums wait for every batch: one with NaN or Inf must be refused before any of it is added.
    void refuse_capture_of_sums() const {
        if (capturing) throw std::runtime_error("sums of clipped rows cannot be captured in a CUDA graph");
    }

    // What it finds would be known at the first replay alone.
    void refuse_capture_of_checks() const {
        if (capturing) throw std::runtime_error("rows cannot be checked for NaN and Inf in a CUDA graph capture");
    }

    cuda::Report wait_for_report() const {
        cuda::Report report = {};
        check_cuda(cudaMemcpyAsync(&report, workspace, sizeof report, cudaMemcpyDeviceToHost, stream), "reading the report of a call");
        check_cuda(cudaStreamSynchronize(stream), "a CUDA call");
        return report;
    }
};

inline BadRow bad_row(const cuda::Report& report) {
    return report.first_bad_row == cuda::kNoRow ? std::nullopt : BadRow(report.first_bad_row);
}

inline void refuse_overflow(const cuda::Report& report) {
    if (report.overflow != 0) throw std::runtime_error("too many samples were left open for the workspace: the result must not be used");
}

}  // namespace hushvec::python
