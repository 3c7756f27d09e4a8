// The part of the DLPack ABI that is used here: capsules "dltensor" and, since version 1, "dltensor_versioned", and the table of
// functions that a tensor type offers as __dlpack_c_exchange_api__ (version 1.3).
#pragma once

#include <cstdint>

namespace hushvec::dlpack {

inline constexpr std::int32_t kCpu = 1;
inline constexpr std::int32_t kCuda = 2;
inline constexpr std::int32_t kCudaManaged = 13;
inline constexpr std::uint8_t kInt = 0;
inline constexpr std::uint8_t kUnsigned = 1;
inline constexpr std::uint8_t kFloat = 2;
inline constexpr std::uint8_t kBfloat = 4;

struct Device {
    std::int32_t type;
    std::int32_t id;
};

struct DataType {
    std::uint8_t code;
    std::uint8_t bits;
    std::uint16_t lanes;
};

struct Tensor {
    void* data;
    Device device;
    std::int32_t ndim;
    DataType dtype;
    std::int64_t* shape;
    std::int64_t* strides;   // in elements; null means row-major contiguous
    std::uint64_t byte_offset;
};

struct ManagedTensor {
    Tensor tensor;
    void* manager_context;
    void (*deleter)(ManagedTensor*);
};

inline constexpr std::uint32_t kMajorVersion = 1;
inline constexpr std::uint64_t kReadOnly = 1;   // flags
inline constexpr std::uint64_t kCopied = 2;

struct Version {
    std::uint32_t major;
    std::uint32_t minor;
};

struct ManagedTensorVersioned {
    Version version;
    void* manager_context;
    void (*deleter)(ManagedTensorVersioned*);
    std::uint64_t flags;
    Tensor tensor;
};

struct ExchangeApi {
    Version version;
    ExchangeApi* previous;   // of an older version, or null
    void* allocate;
    int (*managed_from_object)(void* object, ManagedTensorVersioned** out);
    void* object_from_managed;
    void* tensor_from_object;
    int (*current_work_stream)(std::int32_t device_type, std::int32_t device_id, void** out);
};

}  // namespace hushvec::dlpack
