"""Imports that wait: names of a package that are imported at first use, and packages that an extra of hushvec installs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

from hushvec.errors import MissingExtraError

__all__ = ["at_first_use", "needs_extra"]


@contextmanager
def needs_extra(feature: str, extra: str) -> Iterator[None]:
    """Around imports that a feature needs.

        with needs_extra("reading weights", "text"):
            import safetensors
    """
    try:
        yield
    except ImportError:
        raise MissingExtraError(feature, extra) from None


def at_first_use(
    namespace: dict[str, Any],
    modules: Mapping[str, str],
    *,
    below: Collection[str] = (),
    extra: str = "",
    packages: Collection[str] = (),
    moved: Collection[str] = (),
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package (PEP 562).

    Args:
        namespace: the package's globals().
        modules: a module, by its name below the package or a full one that begins with "hushvec.", -> the names that it has, with
            spaces between them. The names become `__all__` of a package that has none.
        below: modules below the package that are themselves such names.
        moved: modules that have names in their `__all__` which the package once had: ImportError says where they are.
        extra, packages: an extra of hushvec, and those of its packages without which names cannot be imported: MissingExtraError.
    """
    package = namespace["__name__"]
    module_of = {name: module for module, names in modules.items() for name in names.split()}
    if module_of:
        namespace.setdefault("__all__", sorted(module_of))

    def get(name: str) -> Any:
        if name in below:
            return import_module(f"{package}.{name}")  # which makes it an attribute of the package
        module = module_of.get(name)
        if module is None:
            for other in moved if not name.startswith("_") else ():
                if name in import_module(other).__all__:
                    raise ImportError(f"{package} has no {name}: it is in {other}")
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            found = import_module(module if module.startswith("hushvec.") else f"{package}.{module}")
        except ImportError as error:
            if (error.name or "").partition(".")[0] in packages:
                raise MissingExtraError(f"{package}.{name}", extra) from None
            raise
        value = namespace[name] = getattr(found, name)
        return value

    def is_its_own(name: str) -> bool:
        """Whether a name of the namespace belongs to the package, and was not imported into it for its own use."""
        value = namespace[name]
        return name.startswith("_") or (isinstance(value, ModuleType) and value.__name__ == f"{package}.{name}")

    def names() -> list[str]:
        return sorted({*filter(is_its_own, tuple(namespace)), *namespace.get("__all__", ()), *below})

    return get, names
