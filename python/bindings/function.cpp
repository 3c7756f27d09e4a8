#include "function.hpp"

#include <algorithm>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "hushvec/float_modes.hpp"

namespace hushvec::python {

namespace py = pybind11;

struct Parameter {
    py::str name;         // interned
    py::object value;     // where the caller gives none; null: it must
    bool converts;
};

struct FunctionRecord {
    std::string name;
    std::string doc;
    std::vector<Parameter> parameters;
    AnyFunction function;
    Caller caller;
    PyMethodDef definition;
};

namespace {

constexpr std::size_t kMostParameters = 16;

std::size_t place_of(const FunctionRecord& record, PyObject* keyword) {
    const std::size_t count = record.parameters.size();
    for (std::size_t place = 0; place < count; ++place) {   // names in a program are interned
        if (record.parameters[place].name.ptr() == keyword) return place;
    }
    for (std::size_t place = 0; place < count; ++place) {
        if (PyUnicode_Compare(record.parameters[place].name.ptr(), keyword) == 0) return place;
    }
    throw py::type_error(record.name + "(): incompatible function arguments: there is none named " + std::string(py::str(py::handle(keyword))));
}

// Borrowed references to all arguments.
void sort_arguments(const FunctionRecord& record, PyObject* const* given, std::size_t positional, PyObject* keywords, PyObject** values) {
    const std::size_t count = record.parameters.size();
    if (positional > count) {
        throw py::type_error(record.name + "(): incompatible function arguments: at most " + std::to_string(count) + " are taken, got " +
                             std::to_string(positional));
    }
    std::copy_n(given, positional, values);
    for (std::size_t place = positional; place < count; ++place) values[place] = nullptr;
    const std::size_t named = keywords == nullptr ? 0 : static_cast<std::size_t>(PyTuple_GET_SIZE(keywords));
    for (std::size_t i = 0; i < named; ++i) {
        PyObject*& value = values[place_of(record, PyTuple_GET_ITEM(keywords, static_cast<Py_ssize_t>(i)))];
        if (value != nullptr) throw py::type_error(record.name + "(): incompatible function arguments: one is given twice");
        value = given[positional + i];
    }
    for (std::size_t place = positional; place < count; ++place) {
        if (values[place] == nullptr) values[place] = record.parameters[place].value.ptr();
        if (values[place] == nullptr) {
            throw py::type_error(record.name + "(): incompatible function arguments: " + std::string(record.parameters[place].name) + " is missing");
        }
    }
}

PyObject* fail(PyObject* type, const std::exception& error) {
    PyErr_SetString(type, error.what());
    return nullptr;
}

PyObject* call(PyObject* self, PyObject* const* given, Py_ssize_t positional, PyObject* keywords) {
    const auto& record = *static_cast<const FunctionRecord*>(PyCapsule_GetPointer(self, nullptr));
    try {
        PyObject* values[kMostParameters];
        sort_arguments(record, given, static_cast<std::size_t>(positional), keywords, values);
        const FloatModes modes;
        return record.caller(record.function, CallArguments(record, values));
    } catch (py::error_already_set& error) {
        error.restore();
        return nullptr;
    } catch (const py::builtin_exception& error) {
        error.set_error();
        return nullptr;
    } catch (const std::bad_alloc& error) {
        return fail(PyExc_MemoryError, error);
    } catch (const std::out_of_range& error) {
        return fail(PyExc_IndexError, error);
    } catch (const std::logic_error& error) {   // invalid_argument, domain_error, length_error
        return fail(PyExc_ValueError, error);
    } catch (const std::range_error& error) {
        return fail(PyExc_ValueError, error);
    } catch (const std::overflow_error& error) {
        return fail(PyExc_OverflowError, error);
    } catch (const std::exception& error) {
        return fail(PyExc_RuntimeError, error);
    }
}

// The signature in the form that inspect reads, and the text.
std::string doc_of(const FunctionRecord& record, const char* text) {
    std::string doc = record.name + "(";
    for (const Parameter& parameter : record.parameters) {
        if (&parameter != record.parameters.data()) doc += ", ";
        doc += std::string(parameter.name);
        if (parameter.value) doc += "=" + std::string(py::repr(parameter.value));
    }
    return doc + ")\n--\n\n" + (text == nullptr ? "" : text);
}

}  // namespace

bool CallArguments::converts(std::size_t place) const { return record_.parameters[place].converts; }

void CallArguments::refuse(std::size_t place) const {
    const std::string type = py::str(py::type::handle_of(values_[place]).attr("__name__"));
    throw py::type_error(record_.name + "(): incompatible function arguments: " + std::string(record_.parameters[place].name) + " must not be " + type);
}

void add_function(py::object& scope, const char* name, AnyFunction function, Caller caller, std::size_t arguments, std::initializer_list<Extra> extras) {
    auto record = std::make_unique<FunctionRecord>();
    record->name = name;
    record->function = function;
    record->caller = caller;
    const bool is_method = PyType_Check(scope.ptr()) != 0;
    if (is_method) record->parameters.push_back({py::str("self"), py::object(), true});
    const char* text = nullptr;
    for (const Extra& extra : extras) {
        if (extra.doc != nullptr) text = extra.doc;
        if (extra.name == nullptr) continue;
        PyObject* const interned = PyUnicode_InternFromString(extra.name);
        if (interned == nullptr) throw py::error_already_set();
        record->parameters.push_back({py::reinterpret_steal<py::str>(interned), extra.value, extra.converts});
    }
    if (record->parameters.size() != arguments || arguments > kMostParameters) {
        throw std::logic_error(record->name + " must have a name for each argument");
    }
    record->doc = doc_of(*record, text);
    const auto implementation = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call));
    record->definition = {record->name.c_str(), implementation, METH_FASTCALL | METH_KEYWORDS, record->doc.c_str()};

    PyMethodDef* const definition = &record->definition;
    const py::capsule owner(record.release(), [](void* held) { delete static_cast<FunctionRecord*>(held); });
    const auto module_name = scope.attr(is_method ? "__module__" : "__name__");
    auto made = py::reinterpret_steal<py::object>(PyCFunction_NewEx(definition, owner.ptr(), py::object(module_name).ptr()));
    if (made && is_method) made = py::reinterpret_steal<py::object>(PyInstanceMethod_New(made.ptr()));
    if (!made) throw py::error_already_set();
    scope.attr(name) = made;
}

}  // namespace hushvec::python
