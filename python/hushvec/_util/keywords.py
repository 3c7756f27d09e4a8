"""Calls as another library or an earlier version writes them, answered by how they are written here."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from hushvec._util.validate import kind

__all__ = ["explained", "moved"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def explained(function: _Function) -> _Function:
    """Let the function say which arguments it has where it is called with others."""
    parameters = dict(inspect.signature(function).parameters)
    by_name = not any(one.kind is one.POSITIONAL_OR_KEYWORD for one in parameters.values())
    accepts_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    names = [name for name, one in parameters.items() if name != "self" and one.kind is not one.VAR_KEYWORD]
    title = function.__qualname__.removesuffix(".__init__")

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        if arguments and by_name:
            got = ", ".join(map(kind, arguments))
            raise TypeError(f"arguments of {title} must be given by name, as in {title}({names[0]}=...), got {got}")
        for name in options if not accepts_any else ():
            if name not in names:
                here = re.sub("([A-Z])", r"_\1", name).lower()
                hint = f": it is written {here}" if here in names else ""
                raise TypeError(f"arguments of {title} must be among {', '.join(names)}, got {name}{hint}")
        return function(*arguments, **options)

    return call  # type: ignore[return-value]


def moved(places: Mapping[str, str]) -> Callable[[_Function], _Function]:
    """Let the function say where arguments are that it had: `{"budget": "account=Account(budget=...)"}`."""

    def decorated(function: _Function) -> _Function:
        title = function.__qualname__.removesuffix(".__init__")

        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            for name in options:
                if name in places:
                    raise TypeError(f"{name} must be given as {places[name]}, got {title}({name}=...)")
            return function(*arguments, **options)

        return call  # type: ignore[return-value]

    return decorated
