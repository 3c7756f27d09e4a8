#include "array_rules.hpp"

namespace hushvec::python {

std::string name_of(DType dtype) {
    switch (dtype) {
        case DType::float32: return "float32";
        case DType::float64: return "float64";
        case DType::float16: return "float16";
        case DType::int8: return "int8";
        default: return "bfloat16";
    }
}

void refuse_dtype(const char* name, const std::string& got) {
    throw py::type_error(std::string(name) + " must have dtype float32, float64, float16 or bfloat16, got " + got);
}

DType dlpack_dtype(const dlpack::DataType& dtype, const char* name, py::handle array) {
    if (dtype.lanes == 1) {
        if (dtype.code == dlpack::kFloat && dtype.bits == 32) return DType::float32;
        if (dtype.code == dlpack::kFloat && dtype.bits == 64) return DType::float64;
        if (dtype.code == dlpack::kFloat && dtype.bits == 16) return DType::float16;
        if (dtype.code == dlpack::kBfloat && dtype.bits == 16) return DType::bfloat16;
    }
    refuse_dtype(name, py::hasattr(array, "dtype") ? py::str(array.attr("dtype")) : "another");
}

void refuse_negated(py::handle array, const char* name) {
    if (py::hasattr(array, "is_neg") && array.attr("is_neg")().cast<bool>()) {
        throw py::value_error(std::string(name) + " must hold its own signs, got a negated view: pass " + name + ".resolve_neg()");
    }
}

}  // namespace hushvec::python
