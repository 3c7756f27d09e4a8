"""Everything that touches the compiled core: arrays in and out, the choice of device, torch operators. Private to hushvec.

Raises ImportError in a subinterpreter, where loading the core would hang: its bindings take the GIL by a call that finds this
thread's state in the main interpreter, and so would wait for the GIL that the thread itself holds. numpy has no support either.

What the packages above the core may use: these modules as a whole, and what other modules have in their `__all__`.
"""

from importlib import import_module

__all__ = ["_core", "arrays", "cuda", "rowwise"]


def _require_main_interpreter() -> None:
    for name in ("_interpreters", "_xxsubinterpreters"):  # Python's own, by its name since 3.13 or the one before
        try:
            interpreters = import_module(name)
        except ModuleNotFoundError:  # a build without it cannot make subinterpreters from Python
            continue
        if interpreters.get_current() != interpreters.get_main():
            raise ImportError(
                "hushvec must be imported in the main interpreter, got a subinterpreter (use threads or processes; under mod_wsgi, "
                "WSGIApplicationGroup %{GLOBAL})"
            )
        return


_require_main_interpreter()
