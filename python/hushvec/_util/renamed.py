"""Arguments and classes under their old names: accepted with a warning for one version, until 0.2."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def warn_of_old_name(text: str) -> None:
    """A DeprecationWarning about the line outside of hushvec that uses the old name, however many decorators are between."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("hushvec", "importlib"):
        frame = frame.f_back
    module, registry = frame.f_globals.get("__name__"), frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, DeprecationWarning, frame.f_code.co_filename, frame.f_lineno, module, registry)


def renamed_arguments(**old_to_new: str) -> Callable[[Function], Function]:
    """A decorator: keyword arguments of old names are passed on under their new ones.

        @renamed_arguments(whitelist="allow_list")
        def redact(text, *, allow_list=()): ...

    Raises, when the function is called:
        TypeError: both names are given.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for old, new in old_to_new.items():
                if old in kwargs:
                    if new in kwargs:
                        raise TypeError(f"{new} must be given once, got {old} as well, which is its old name")
                    warn_of_old_name(f"{old} is now {new}; the old name goes in 0.2")
                    kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate


def renamed_names(namespace: dict[str, Any], **old_to_new: str) -> Callable[[str], Any]:
    """`__getattr__` of a package (PEP 562) in which names have changed. `namespace` is its globals()."""

    def get(name: str) -> Any:
        if name not in old_to_new:
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
        warn_of_old_name(f"{name} is now {old_to_new[name]}; the old name goes in 0.2")
        return namespace[old_to_new[name]]

    return get
