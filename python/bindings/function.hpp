// Functions of the module, without pybind11's dispatcher: it compiles a thousand lines for each function, and takes longer for a call.
// Arguments are converted by pybind11's casters and exceptions become Python's as pybind11 documents it.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <utility>

namespace hushvec::python {

// What define takes behind the function: py::arg, one for each argument, and a text for help().
struct Extra {
    Extra(const pybind11::arg& argument) : name(argument.name), converts(!argument.flag_noconvert) {}
    Extra(const pybind11::arg_v& argument) : Extra(static_cast<const pybind11::arg&>(argument)) { value = argument.value; }
    Extra(const char* text) : doc(text) {}

    const char* name = nullptr;
    bool converts = true;
    pybind11::object value;   // null: the caller must give one
    const char* doc = nullptr;
};

using AnyFunction = void (*)();
struct FunctionRecord;

// The arguments of one call, in the order of the function's own.
class CallArguments {
public:
    CallArguments(const FunctionRecord& record, PyObject* const* values) : record_(record), values_(values) {}

    // Throws TypeError, naming the argument.
    template <class T>
    pybind11::detail::make_caster<T> get(std::size_t place) const {
        pybind11::detail::make_caster<T> caster;
        if (!caster.load(values_[place], converts(place))) refuse(place);
        return caster;
    }

private:
    bool converts(std::size_t place) const;
    [[noreturn]] void refuse(std::size_t place) const;

    const FunctionRecord& record_;
    PyObject* const* values_;
};

// A new reference to what the function returns. One for all functions of a type.
template <class Result, class... Arguments>
PyObject* call_function(AnyFunction any, const CallArguments& given) {
    const auto function = reinterpret_cast<Result (*)(Arguments...)>(any);
    const auto call = [&]<std::size_t... places>(std::index_sequence<places...>) -> Result {
        return function(pybind11::detail::cast_op<Arguments>(given.get<Arguments>(places))...);
    };
    if constexpr (std::is_void_v<Result>) {
        call(std::index_sequence_for<Arguments...>());
        return pybind11::none().release().ptr();
    } else if constexpr (std::is_base_of_v<pybind11::object, Result>) {
        return call(std::index_sequence_for<Arguments...>()).release().ptr();
    } else {
        return pybind11::cast(call(std::index_sequence_for<Arguments...>())).release().ptr();
    }
}

using Caller = PyObject* (*)(AnyFunction, const CallArguments&);

// As an attribute of the scope, where self is the first argument of a class's functions. In the floating-point modes of the core,
// whatever the calling thread has set.
void add_function(pybind11::object& scope, const char* name, AnyFunction function, Caller caller, std::size_t arguments,
                  std::initializer_list<Extra> extras);

template <class Result, class... Arguments>
void define_function(pybind11::object& scope, const char* name, Result (*function)(Arguments...), std::initializer_list<Extra> extras) {
    add_function(scope, name, reinterpret_cast<AnyFunction>(function), call_function<Result, Arguments...>, sizeof...(Arguments), extras);
}

// `function`: a function, or a lambda without captures. For everything that computes.
template <class Function, class... Extras>
void define(pybind11::object& scope, const char* name, Function function, const Extras&... extras) {
    if constexpr (std::is_pointer_v<Function>) {
        define_function(scope, name, function, {Extra(extras)...});
    } else {
        define_function(scope, name, +function, {Extra(extras)...});
    }
}

}  // namespace hushvec::python
