"""What holds for every dataclass of a room: rooms hand these to each other, and keep them in caches and sets."""

import importlib
import pkgutil
from dataclasses import fields, is_dataclass

import hushvec

ARRAYS = ("NDArray", "Floats", "Rows", "Words", "Table")


def classes_of(room):
    """The dataclasses that a package of hushvec declares, by name."""
    package = importlib.import_module(f"{hushvec.__name__}.{room}")
    modules = [importlib.import_module(found.name) for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")]
    found = {}
    for module in modules:
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
