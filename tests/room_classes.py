"""What holds for all dataclasses of a room, which rooms hand to each other and keep in caches and sets, and for arguments."""

import importlib
import inspect
import pkgutil
from dataclasses import fields, is_dataclass

import hushvec

ARRAYS = ("NDArray", "Floats", "Rows", "Words", "Table")


def modules_of(room):
    package = importlib.import_module(f"{hushvec.__name__}.{room}")
    return [importlib.import_module(found.name) for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")]


def classes_of(room):
    """The dataclasses that a package of hushvec declares, by name."""
    found = {}
    for module in modules_of(room):
        for kind in vars(module).values():
            if isinstance(kind, type) and kind.__module__ == module.__name__ and "__dataclass_fields__" in vars(kind):
                found[kind.__name__] = kind
    assert found and all(map(is_dataclass, found.values()))
    return found


def that_change(room):
    """Names of those whose fields can be set again."""
    return {name for name, kind in classes_of(room).items() if not kind.__dataclass_params__.frozen}


def by_place(room):
    """Names of those that take an argument by its place."""
    return {name for name, kind in classes_of(room).items() if not all(field.kw_only for field in fields(kind))}


def with_arrays(room):
    """Names of those with arrays, which `==` cannot compare to one truth value, nor `hash` take."""
    types = {name: " ".join(str(field.type) for field in fields(kind)) for name, kind in classes_of(room).items()}
    return {name for name, its_types in types.items() if any(word in its_types for word in ARRAYS)}


def by_value(room):
    """Names of those that are equal where all of their fields are, and have that hash."""
    return {name for name, kind in classes_of(room).items() if kind.__dataclass_params__.eq}


def numbers_left_out(room):
    """A line for each function, class or method without an underscore with numbers or bools where arguments are left out."""
    lines = set()
    for module in modules_of(room):
        if module.__name__.rpartition(".")[2].startswith("_"):   # compiled
            continue
        for name, function in _callables(module):
            try:
                parameters = inspect.signature(function).parameters.values()
            except ValueError:   # a class of the core
                continue
            defaults = [f"{one.name}={one.default!r}" for one in parameters if isinstance(one.default, bool | int | float)]
            if defaults:
                lines.add(f"{module.__name__.rpartition('.')[2]}.{name}({', '.join(defaults)})")
    return sorted(lines)


def _callables(module):
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if callable(value):
            yield name, value
        for below, method in vars(value).items() if isinstance(value, type) else ():
            method = getattr(method, "__func__", method)
            if inspect.isfunction(method) and not below.startswith("_"):
                yield f"{name}.{below}", method
