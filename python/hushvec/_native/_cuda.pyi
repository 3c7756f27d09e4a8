"""Types of the CUDA backend. An Array lies in CUDA memory: a torch tensor, a CuPy array, or anything with DLPack.

A Source is what `_core.Generator._reserve` returned, or an array of six 64-bit words on the device. `stream` is a stream's handle.
"""

from typing import Any

_Array = Any
_Source = Any

__version__: str

def check_driver() -> None: ...
def current_stream(x: _Array, device: int) -> int | None: ...
def is_capturing(stream: int, device: int) -> bool: ...
def workspace_bytes(x: _Array) -> int: ...
def fill(out: _Array, law: str, scale: float, source: _Source, stream: int) -> None: ...
def clip(x: _Array, clip_norm: float, out: _Array, workspace: _Array, stream: int) -> int | None: ...
def clip_and_noise(
    x: _Array,
    clip_norm: float,
    sigma: float,
    out: _Array,
    source: _Source,
    law: str,
    exact: bool,
    workspace: _Array,
    stream: int,
) -> int | None: ...

def sum_workspace_bytes(x: _Array) -> int: ...
def clip_sum_and_noise(
    x: _Array, clip_norm: float, sigma: float, out: _Array, source: _Source, workspace: _Array, stream: int
) -> int | None: ...

class _testing:
    """Hooks for the tests; not part of the interface."""

    @staticmethod
    def describe(x: _Array) -> dict[str, Any]: ...
