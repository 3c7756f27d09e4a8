// The part of the DLPack ABI (version 0, capsule name "dltensor") that CPU tensors need.
#pragma once

#include <cstdint>

namespace hushvec::dlpack {

inline constexpr std::int32_t kCpu = 1;
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

}  // namespace hushvec::dlpack
