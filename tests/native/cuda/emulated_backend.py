"""The emulated device (ptx/README.md) as the CUDA backend of a process: a module in place of hushvec._native._cuda, memory for arrays.

Work on a stream runs when something waits for it. What the host reads or writes here waits first (`wait`); calls of hushvec do not.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import sys
import weakref
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from native.cuda.device_stand_in import cupy_module, ndarray
from native.cuda.ptx import build

NAME = "hushvec._native._cuda"
_DEVICE_MEMORY = 2   # cudaMemoryTypeDevice


class Counts(NamedTuple):
    """What the process has done so far. `attributes`: kernels that were loaded by asking for them."""

    kernels: int
    memsets: int
    copies: int
    waits: int
    faults: int
    attributes: int
    device_changes: int


def install() -> None:
    """For the life of the process."""
    import hushvec._native

    spec = importlib.util.spec_from_file_location(NAME, build.python_module(build.Settings()))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[NAME] = hushvec._native._cuda = module


@cache
def runtime() -> Any:
    """The functions of the emulated CUDA runtime."""
    library, pointer = ctypes.CDLL(sys.modules[NAME].__file__), ctypes.c_void_p
    library.hushvec_emulated_allocate.restype = pointer
    library.hushvec_emulated_allocate.argtypes = [ctypes.c_size_t, ctypes.c_int]
    for name in ("cudaFree", "cudaStreamSynchronize", "cudaStreamDestroy"):
        getattr(library, name).argtypes = [pointer]
    library.cudaPointerGetAttributes.argtypes = [pointer, pointer]
    library.cudaStreamIsCapturing.argtypes = [pointer, pointer]
    library.cudaStreamBeginCapture.argtypes = [pointer, ctypes.c_int]
    library.cudaGraphInstantiate.argtypes = [pointer, pointer, ctypes.c_ulonglong]
    library.cudaGraphLaunch.argtypes = [pointer, pointer]
    return library


def counts() -> Counts:
    values = (ctypes.c_long * len(Counts._fields))()
    runtime().hushvec_emulated_counts(values)
    return Counts(*values)


def call(name: str, *arguments: Any) -> None:
    if error := getattr(runtime(), name)(*arguments):
        raise RuntimeError(f"{name} failed on the emulated device: cudaError {error}")


# ---- memory, as an allocator that caches would give it: also in a capture, and back when the device is done with it ----

_unused: list[int] = []
_of_graph: list[Any] | None = None   # what is allocated in a capture stays as long as its graph


def allocate(size: int, device: int = 0) -> Any:
    """An object with the buffer protocol, of at least one byte."""
    memory = (ctypes.c_uint8 * max(size, 1)).from_address(runtime().hushvec_emulated_allocate(max(size, 1), device))
    weakref.finalize(memory, _unused.append, ctypes.addressof(memory)).atexit = False
    if _of_graph is not None:
        _of_graph.append(memory)
    return memory


def wait() -> None:
    """For all streams, as whatever the host does with device memory must. Not among the counted waits."""
    runtime().hushvec_emulated_wait()
    while _unused:
        call("cudaFree", _unused.pop())


def device_at(address: int) -> int | None:
    """The device whose memory this is; None for the host's."""
    attributes = (ctypes.c_int * 64)()
    call("cudaPointerGetAttributes", attributes, address)
    return attributes[1] if attributes[0] == _DEVICE_MEMORY else None


# ---- streams and graphs ----

_current: list[Stream] = []


class Stream:
    def __init__(self, device: Any = None) -> None:
        handle = ctypes.c_void_p()
        call("cudaStreamCreate", ctypes.byref(handle))
        self.cuda_stream = handle.value
        weakref.finalize(self, call, "cudaStreamDestroy", handle).atexit = False

    def synchronize(self) -> None:
        call("cudaStreamSynchronize", self.cuda_stream)


def current_handle() -> int:
    return _current[-1].cuda_stream if _current else 0


@contextlib.contextmanager
def stream(chosen: Stream) -> Iterator[None]:
    _current.append(chosen)
    try:
        yield
    finally:
        _current.pop()


def is_capturing() -> bool:
    status = ctypes.c_int()
    call("cudaStreamIsCapturing", current_handle(), ctypes.byref(status))
    return status.value != 0


class Graph:
    def __init__(self) -> None:
        self.memory: list[Any] = []
        self._instance = ctypes.c_void_p()

    @contextlib.contextmanager
    def capture(self) -> Iterator[None]:
        """What hushvec puts on a new stream, the current one, goes into the graph. What arrays do themselves happens at once."""
        global _of_graph
        wait()
        captured = ctypes.c_void_p()
        with stream(Stream()):
            call("cudaStreamBeginCapture", current_handle(), 0)
            _of_graph = self.memory
            try:
                yield
            finally:
                _of_graph = None
                call("cudaStreamEndCapture", ctypes.c_void_p(current_handle()), ctypes.byref(captured))
                call("cudaGraphInstantiate", ctypes.byref(self._instance), captured, 0)

    def replay(self) -> None:
        call("cudaGraphLaunch", self._instance, current_handle())


# ---- CuPy's arrays ----


class Array(ndarray):
    """One that lies in memory of the emulated device."""

    def __init__(self, host: Any, device: int = 0) -> None:
        host = np.asarray(host)
        if device_at(host.ctypes.data) is None:
            memory = np.frombuffer(allocate(host.nbytes, device), np.uint8)[: host.nbytes].view(host.dtype).reshape(host.shape)
            memory[...] = host
            host = memory
        super().__init__(host, device)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        said = self.host.__array_interface__
        return {**{key: said[key] for key in ("shape", "typestr", "strides", "version")}, "data": (self.host.ctypes.data, False)}

    def __rmul__(self, factor: float) -> Array:
        wait()
        return Array(factor * self.host)

    __mul__ = __rmul__


def _after_waiting(method: Any) -> Any:
    def waits(self: Array, *arguments: Any, **options: Any) -> Any:
        wait()
        return method(self, *arguments, **options)

    return waits


for _name in ("astype", "__getitem__", "__setitem__", "__invert__", "__float__", "__int__", "get"):
    setattr(Array, _name, _after_waiting(getattr(ndarray, _name)))


def emulated_cupy() -> Any:
    """A module `cupy`, as far as hushvec calls it."""
    module = cupy_module(Array)
    module.cuda.get_current_stream = lambda: type("Current", (), {"ptr": current_handle()})
    return module
