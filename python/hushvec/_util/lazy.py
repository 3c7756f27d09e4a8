"""Imports that wait: names of a package that are imported at first use, and packages that an extra of hushvec installs."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any, cast

from hushvec.errors import MissingExtraError

__all__ = ["at_first_use", "needs_extra"]

_one_at_a_time = threading.Lock()  # for builtins.__import__


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


@contextmanager
def at_first_use(
    namespace: dict[str, Any], *, extra: str = "", packages: Collection[str] = (), moved: Collection[str] = ()
) -> Iterator[None]:
    """Around imports of a package: each `from module import names` waits until a name is used, as `lazy from` of Python 3.15 does.

        with at_first_use(globals()):
            from hushvec.text.corpus import PublicCorpus

    Type checkers see the imports as they stand. The package gets `__getattr__` and `__dir__` (PEP 562).

    Args:
        namespace: the package's globals().
        extra, packages: an extra of hushvec, and those of its packages without which names cannot be imported: MissingExtraError.
        moved: modules that have names in their `__all__` which the package once had: ImportError says where they are.
    """
    package = namespace["__name__"]
    module_of: dict[str, str] = {}

    def noted(name: str, importing: Any = None, local: Any = None, wanted: Any = (), level: int = 0) -> Any:
        """In the place of `__import__`: what this package imports is only noted; others import as ever."""
        if importing is not namespace:
            return imports(name, importing, local, wanted, level)
        module_of.update(dict.fromkeys(wanted, name))
        return SimpleNamespace(**dict.fromkeys(wanted))

    with _one_at_a_time:
        imports, builtins.__import__ = builtins.__import__, cast(Any, noted)
        try:
            yield
        finally:
            builtins.__import__ = imports
    for name in module_of:
        del namespace[name]

    def get(name: str) -> Any:
        module = module_of.get(name)
        if module is None:
            for other in moved if not name.startswith("_") else ():
                if name in import_module(other).__all__:
                    raise ImportError(f"{package} has no {name}: it is in {other}")
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if module == package:
            return import_module(f"{package}.{name}")  # which makes it an attribute of the package
        try:
            found = import_module(module)
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
        return sorted({*filter(is_its_own, tuple(namespace)), *namespace.get("__all__", ()), *module_of})

    namespace["__getattr__"], namespace["__dir__"] = get, names
