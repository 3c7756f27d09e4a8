#include "device_array.hpp"

#include <cuda_runtime_api.h>

#include <utility>

#include "../array_rules.hpp"
#include "device.hpp"

namespace hushvec::python {
namespace {

std::string text(const char* name, const std::string& rest) { return std::string(name) + rest; }

std::string device_name(const dlpack::Device& device) {
    if (device.type == dlpack::kCpu) return "the CPU";
    if (device.type == dlpack::kCuda || device.type == dlpack::kCudaManaged) return "cuda:" + std::to_string(device.id);
    return "DLPack device type " + std::to_string(device.type);
}

bool is_cuda(const dlpack::Device& device) { return device.type == dlpack::kCuda || device.type == dlpack::kCudaManaged; }

std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& shape) {
    std::vector<std::int64_t> strides(shape.size(), 1);
    for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
    return strides;
}

Described from_tensor(const char* way, const dlpack::Tensor& tensor, bool writable, py::object owner) {
    Described array;
    array.way = way;
    array.data = reinterpret_cast<std::uintptr_t>(tensor.data);
    if (array.data != 0) array.data += tensor.byte_offset;
    array.dtype = tensor.dtype;
    array.shape.assign(tensor.shape, tensor.shape + tensor.ndim);
    array.strides = tensor.strides != nullptr ? std::vector<std::int64_t>(tensor.strides, tensor.strides + tensor.ndim)
                                              : row_major_strides(array.shape);
    array.device = tensor.device;
    array.writable = writable;
    array.owner = std::move(owner);
    return array;
}

Described from_managed(const char* way, const dlpack::ManagedTensorVersioned& managed, const char* name, py::object owner) {
    if (managed.version.major != dlpack::kMajorVersion) {
        throw py::type_error(text(name, " must export DLPack version 1, got version ") + std::to_string(managed.version.major));
    }
    const bool writable = (managed.flags & (dlpack::kReadOnly | dlpack::kCopied)) == 0;
    return from_tensor(way, managed.tensor, writable, std::move(owner));
}

// The table of the array's type, in the version that is known here, or null.
const dlpack::ExchangeApi* exchange_api(py::handle array) {
    const py::object capsule = py::getattr(py::type::of(array), "__dlpack_c_exchange_api__", py::none());
    if (!PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) return nullptr;
    auto* api = static_cast<const dlpack::ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    while (api != nullptr && api->version.major != dlpack::kMajorVersion) api = api->previous;
    return api;
}

Described from_exchange_api(const dlpack::ExchangeApi& api, py::handle array, const char* name) {
    dlpack::ManagedTensorVersioned* managed = nullptr;
    if (api.managed_from_object(array.ptr(), &managed) != 0) throw py::error_already_set();
    const py::capsule owner(managed, [](void* held) {
        auto* tensor = static_cast<dlpack::ManagedTensorVersioned*>(held);
        if (tensor->deleter != nullptr) tensor->deleter(tensor);
    });
    return from_managed("exchange table", *managed, name, owner);
}

py::object dlpack_capsule(py::handle array) {
    using namespace py::literals;
    const py::object exporter = array.attr("__dlpack__");
    constexpr int kNoSynchronisation = -1;   // the call runs on the stream that the array is worked on
    try {
        return exporter("stream"_a = kNoSynchronisation, "max_version"_a = py::make_tuple(dlpack::kMajorVersion, 0));
    } catch (const py::error_already_set& error) {
        if (!error.matches(PyExc_TypeError)) throw;   // an exporter from before version 1 does not know max_version
    }
    return exporter("stream"_a = kNoSynchronisation);
}

Described from_dlpack(py::handle array, const char* name) {
    const auto [type, id] = array.attr("__dlpack_device__")().cast<std::pair<std::int32_t, std::int32_t>>();
    const dlpack::Device device = {type, id};
    if (!is_cuda(device)) throw py::value_error(text(name, " must be in CUDA memory, got ") + device_name(device));
    py::object exported = dlpack_capsule(array);
    if (PyCapsule_IsValid(exported.ptr(), "dltensor_versioned")) {
        const auto* managed = static_cast<dlpack::ManagedTensorVersioned*>(PyCapsule_GetPointer(exported.ptr(), "dltensor_versioned"));
        return from_managed("versioned capsule", *managed, name, std::move(exported));
    }
    const auto* managed = static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(exported.ptr(), "dltensor"));
    if (managed == nullptr) throw py::error_already_set();
    return from_tensor("capsule", managed->tensor, true, std::move(exported));
}

// "<f4" as DLPack says it; `typestr` is numpy's.
dlpack::DataType dtype_of_typestr(const std::string& typestr, const char* name) {
    const bool native = typestr.size() >= 3 && (typestr[0] == '<' || typestr[0] == '|' || typestr[0] == '=');
    const std::string kinds = "iuf";   // in the order of DLPack's codes
    const std::size_t code = native ? kinds.find(typestr[1]) : std::string::npos;
    const bool is_number = typestr.find_first_not_of("0123456789", 2) == std::string::npos && typestr.size() <= 4;
    if (code == std::string::npos || !is_number) refuse_dtype(name, typestr);
    return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * std::stoi(typestr.substr(2))), 1};
}

Described from_cuda_array_interface(py::handle array, const char* name) {
    const auto interface = array.attr("__cuda_array_interface__").cast<py::dict>();
    if (interface.contains("mask") && !interface["mask"].is_none()) {
        throw py::type_error(text(name, " must be a plain array, got one with a mask"));
    }
    const auto [data, read_only] = interface["data"].cast<std::pair<std::uintptr_t, bool>>();
    Described described;
    described.way = "CUDA array interface";
    described.data = data;
    described.dtype = dtype_of_typestr(interface["typestr"].cast<std::string>(), name);
    for (const py::handle length : interface["shape"].cast<py::tuple>()) described.shape.push_back(length.cast<std::int64_t>());
    described.strides = row_major_strides(described.shape);
    if (interface.contains("strides") && !interface["strides"].is_none()) {
        const std::int64_t item = described.dtype.bits / 8;
        std::size_t axis = 0;
        for (const py::handle stride : interface["strides"].cast<py::tuple>()) {
            const auto in_bytes = stride.cast<std::int64_t>();
            if (axis == described.strides.size() || in_bytes % item != 0) {
                throw py::value_error(text(name, " must have strides of whole elements, got ") + std::string(py::str(interface["strides"])));
            }
            described.strides[axis++] = in_bytes / item;
        }
    }
    described.writable = !read_only;
    described.owner = py::reinterpret_borrow<py::object>(array);
    return described;
}

std::size_t elements_of(const Described& array) {
    std::size_t elements = 1;
    for (const std::int64_t length : array.shape) elements *= static_cast<std::size_t>(length);
    return elements;
}

bool is_contiguous(const Described& array) {
    if (elements_of(array) == 0) return true;   // whatever its strides
    std::int64_t expected = 1;
    for (std::size_t i = array.shape.size(); i-- > 0;) {
        if (array.shape[i] != 1 && array.strides[i] != expected) return false;
        expected *= array.shape[i];
    }
    return true;
}

// Where the memory lies. The last of all checks: it may ask the driver.
int device_of(const Described& array, const char* name) {
    if (array.device) {
        if (!is_cuda(*array.device)) throw py::value_error(text(name, " must be in CUDA memory, got ") + device_name(*array.device));
        return array.device->id;
    }
    cudaPointerAttributes attributes = {};
    check_cuda(cudaPointerGetAttributes(&attributes, reinterpret_cast<void*>(array.data)), "finding the device of an array");
    if (attributes.type != cudaMemoryTypeDevice && attributes.type != cudaMemoryTypeManaged) {
        throw py::value_error(text(name, " must be in CUDA memory, got ") + device_name({dlpack::kCpu, 0}));
    }
    return attributes.device;
}

// Elements one after the other, and memory for them.
void check_memory(const Described& array, std::size_t item_bytes, const char* name) {
    if (!is_contiguous(array)) {
        const auto ndim = static_cast<std::ptrdiff_t>(array.strides.size());
        throw py::value_error(text(name, " must be contiguous in row-major order, got strides ") + printed_shape(array.strides.data(), ndim));
    }
    if (array.data % item_bytes != 0) throw py::value_error(text(name, " must be aligned to its elements, got an odd address"));
    if (array.data == 0 && elements_of(array) > 0) throw py::value_error(text(name, " must have memory of its own, got a tensor without"));
}

DeviceArray checked(const Described& array, py::handle object, const char* name) {
    const DType dtype = dlpack_dtype(array.dtype, name, object);
    const auto ndim = static_cast<std::ptrdiff_t>(array.shape.size());
    check_dimensions(array.shape.data(), ndim, name);
    check_memory(array, item_size(dtype), name);
    const auto columns = static_cast<std::size_t>(array.shape.back());
    return {reinterpret_cast<void*>(array.data), dtype, ndim == 2 ? static_cast<std::size_t>(array.shape[0]) : 1, columns,
            device_of(array, name), printed_shape(array.shape.data(), ndim), array.owner};
}

}  // namespace

Described describe(py::handle array, const char* name) {
    refuse_negated(array, name);
    if (const dlpack::ExchangeApi* api = exchange_api(array)) return from_exchange_api(*api, array, name);
    if (py::hasattr(array, "__dlpack__") && py::hasattr(array, "__dlpack_device__")) return from_dlpack(array, name);
    if (py::hasattr(array, "__cuda_array_interface__")) return from_cuda_array_interface(array, name);
    throw py::type_error(text(name, " must be an array in CUDA memory (DLPack or __cuda_array_interface__), got ") +
                         std::string(py::str(py::type::of(array).attr("__name__"))));
}

std::optional<std::uintptr_t> current_stream(py::handle array, int device) {
    const dlpack::ExchangeApi* api = exchange_api(array);
    if (api == nullptr || api->current_work_stream == nullptr) return std::nullopt;
    void* stream = nullptr;
    if (api->current_work_stream(dlpack::kCuda, device, &stream) != 0) throw py::error_already_set();
    return reinterpret_cast<std::uintptr_t>(stream);
}

DeviceArray device_array(py::handle array, const char* name) { return checked(describe(array, name), array, name); }

DeviceArray device_output(py::handle array, const char* name) {
    const Described described = describe(array, name);
    if (!described.writable) throw py::value_error(text(name, " must be writable, got a read-only array"));
    return checked(described, array, name);
}

std::uint64_t DeviceIntegers::largest() const { return ~std::uint64_t{0} >> (64 - 8 * item_bytes + (is_signed ? 1 : 0)); }

DeviceIntegers device_integers(py::handle array, const char* name) {
    const Described described = describe(array, name);
    const auto [code, bits, lanes] = described.dtype;
    const bool is_signed = code == dlpack::kInt, width_is_known = bits == 8 || bits == 16 || bits == 32 || bits == 64;
    if ((!is_signed && code != dlpack::kUnsigned) || lanes != 1 || !width_is_known) {
        throw py::type_error(text(name, " must be an array of integers, got ") + (py::hasattr(array, "dtype") ? std::string(py::str(array.attr("dtype"))) : "another"));
    }
    check_memory(described, bits / 8, name);
    return {reinterpret_cast<void*>(described.data), bits / std::size_t{8}, is_signed, elements_of(described), device_of(described, name),
            (is_signed ? "int" : "uint") + std::to_string(bits), described.owner};
}

DeviceIntegers device_integers_like(const DeviceIntegers& x, py::handle array, const char* name) {
    if (!describe(array, name).writable) throw py::value_error(text(name, " must be writable, got a read-only array"));
    const DeviceIntegers out = device_integers(array, name);
    if (out.dtype != x.dtype) throw py::type_error(text(name, " must have dtype ") + x.dtype + ", got " + out.dtype);
    if (out.count != x.count) throw py::value_error(text(name, " must have ") + std::to_string(x.count) + " elements, got " + std::to_string(out.count));
    if (out.device != x.device) {
        throw py::value_error(text(name, " must be on cuda:") + std::to_string(x.device) + ", got cuda:" + std::to_string(out.device));
    }
    return out;
}

void check_device_output_for(const DeviceArray& x, const DeviceArray& out) {
    if (x.shape != out.shape) throw py::value_error("out must have shape " + x.shape + " like x, got " + out.shape);
    if (x.dtype != out.dtype) throw py::type_error("out must have dtype " + name_of(x.dtype) + " like x, got " + name_of(out.dtype));
    if (x.device != out.device) {
        throw py::value_error("out must be on cuda:" + std::to_string(x.device) + " like x, got cuda:" + std::to_string(out.device));
    }
    const auto a = reinterpret_cast<std::uintptr_t>(x.data), b = reinterpret_cast<std::uintptr_t>(out.data);
    if (a == b || x.size() == 0) return;
    if (a < b + out.bytes() && b < a + x.bytes()) throw py::value_error("out must be x itself or not overlap it, got a partial overlap");
}

void* device_memory(py::handle array, const char* name, std::size_t bytes, int device) {
    const Described described = describe(array, name);
    if (!described.writable) throw py::value_error(text(name, " must be writable, got a read-only array"));
    const std::size_t there = elements_of(described) * described.dtype.bits / 8;
    if (!is_contiguous(described) || there < bytes) {
        throw py::value_error(text(name, " must be contiguous and have ") + std::to_string(bytes) + " bytes, got " + std::to_string(there));
    }
    const int found = device_of(described, name);
    if (found != device) {
        throw py::value_error(text(name, " must be on cuda:") + std::to_string(device) + " like the array, got cuda:" + std::to_string(found));
    }
    return reinterpret_cast<void*>(described.data);
}

}  // namespace hushvec::python
