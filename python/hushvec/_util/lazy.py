"""Names of a package that are imported when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


def at_first_use(
    namespace: dict[str, Any], modules: Mapping[str, str], *, below: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package (PEP 562).

    Args:
        namespace: the package's globals().
        modules: name -> the module that has it: a name below the package, or a full one that begins with "hushvec.".
        below: modules below the package that are themselves such names.
    """
    package = namespace["__name__"]

    def get(name: str) -> Any:
        if name in below:
            return import_module(f"{package}.{name}")  # which makes it an attribute of the package
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = namespace[name] = getattr(import_module(_full_name(modules[name], package)), name)
        return value

    def is_its_own(name: str) -> bool:
        """Whether a name of the namespace belongs to the package, and was not imported into it for its own use."""
        value = namespace[name]
        return name.startswith("_") or (isinstance(value, ModuleType) and value.__name__ == f"{package}.{name}")

    def names() -> list[str]:
        return sorted({*filter(is_its_own, tuple(namespace)), *namespace.get("__all__", ()), *below})

    return get, names


def _full_name(module: str, package: str) -> str:
    return module if module.startswith("hushvec.") else f"{package}.{module}"
