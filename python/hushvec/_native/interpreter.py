"""Imported first: raises ImportError in a subinterpreter, where loading the core would hang.

The bindings of the core take the GIL by a call that finds this thread's state in the main interpreter, and so would wait for the GIL
that the thread itself holds. numpy does not support subinterpreters either.
"""

from importlib import import_module
from types import ModuleType


def _interpreters() -> ModuleType | None:
    """Python's own module, by its name since 3.13 or the one before. A build without it cannot make subinterpreters from Python."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            return import_module(name)
        except ModuleNotFoundError:
            continue
    return None


def _require_main_interpreter() -> None:
    interpreters = _interpreters()
    if interpreters is not None and interpreters.get_current() != interpreters.get_main():
        raise ImportError(
            "hushvec must be imported in the main interpreter, got a subinterpreter (use threads or processes; under mod_wsgi, "
            "WSGIApplicationGroup %{GLOBAL})"
        )


_require_main_interpreter()
