// Turns a Python array in CUDA memory into a pointer, a dtype and a shape, without a copy and without waiting for the device:
// through DLPack's table of functions where the type has one, else __dlpack__, else __cuda_array_interface__.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../dlpack.hpp"
#include "hushvec/array.hpp"

namespace hushvec::python {

namespace py = pybind11;

// What an array says about itself, before any rule.
struct Described {
    const char* way = "";
    std::uintptr_t data = 0;
    dlpack::DataType dtype = {};
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;   // in elements
    std::optional<dlpack::Device> device;   // __cuda_array_interface__ leaves it to the pointer
    bool writable = true;
    py::object owner;   // keeps the memory alive
};

Described describe(py::handle array, const char* name);

// The stream that the array's library works on, on a device, where the array's type has DLPack's table of functions.
std::optional<std::uintptr_t> current_stream(py::handle array, int device);

// Contiguous rows in the memory of one device.
struct DeviceArray {
    void* data;
    DType dtype;
    std::size_t rows;
    std::size_t columns;
    int device;
    std::string shape;   // as Python prints it, for messages
    py::object owner;

    std::size_t size() const { return rows * columns; }
    std::size_t bytes() const { return size() * item_size(dtype); }
};

// Throw TypeError (kind, dtype) or ValueError (dimensions, layout, device), naming the argument.
DeviceArray device_array(py::handle array, const char* name);
DeviceArray device_output(py::handle array, const char* name);

// Contiguous integers of 8 to 64 bits in the memory of one device, of any number of dimensions.
struct DeviceIntegers {
    void* data;
    std::size_t item_bytes;
    bool is_signed;
    std::size_t count;
    int device;
    std::string dtype;   // for messages
    py::object owner;

    std::uint64_t largest() const;   // that the type holds
};

DeviceIntegers device_integers(py::handle array, const char* name);

// An array for results like those in x: of its type, count and device, and apart from it.
DeviceIntegers device_integers_like(const DeviceIntegers& x, py::handle array, const char* name);

// Shape, dtype and device of out are those of x; the memory is x's own or disjoint from it.
void check_device_output_for(const DeviceArray& x, const DeviceArray& out);

// Contiguous memory of at least `bytes` on `device`, whatever its dtype: a workspace or a stream's state.
void* device_memory(py::handle array, const char* name, std::size_t bytes, int device);

}  // namespace hushvec::python
