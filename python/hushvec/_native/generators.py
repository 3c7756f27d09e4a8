"""The generator that a call draws from: the one given, or that of the process."""

from __future__ import annotations

from typing import Any

from hushvec._native import _core
from hushvec._util.recording import require_no_recorder
from hushvec._util.validate import kind

# One object for as long as the process lives: what is kept for a generator on a device is found by it.
_DEFAULT_GENERATOR = _core.default_generator()


def require_generator(value: Any) -> _core.Generator:
    """The given generator, or the one of the process, for a draw: refused where the caller is being recorded into a program."""
    require_no_recorder()
    if value is None:
        return _DEFAULT_GENERATOR
    if not isinstance(value, _core.Generator):
        raise TypeError(f"generator must be a hushvec.Generator or None, got {kind(value)}")
    return value
