"""CuPy and the CUDA backend as far as dispatch sees them, without a device: arrays keep their elements in host memory, and the backend's
calls are answered by the core. What the kernels themselves compute is tested in tests/native/cpp, and on a device."""

from __future__ import annotations

import contextlib
import types

import numpy as np

import hushvec as hv
from hushvec._native import _core
from hushvec.mechanisms.public_arrays import nearest_codes

STREAM = 7


class ndarray:  # noqa: N801
    """A cupy.ndarray."""

    def __init__(self, host, device=0):
        self.host, self._device = host, device

    shape = property(lambda self: self.host.shape)
    ndim = property(lambda self: self.host.ndim)
    dtype = property(lambda self: self.host.dtype)
    flags = property(lambda self: self.host.flags)

    @property
    def device(self):
        device = contextlib.nullcontext()
        device.id = self._device
        return device

    def reshape(self, *shape):
        return type(self)(self.host.reshape(*shape), self._device)

    def astype(self, dtype, copy=True):
        return type(self)(self.host.astype(dtype, copy=copy), self._device)

    def __getitem__(self, place):
        return type(self)(self.host[place.host if isinstance(place, ndarray) else place], self._device)

    def __setitem__(self, place, value):
        self.host[place] = value.host if isinstance(value, ndarray) else value

    def __invert__(self):
        return type(self)(~self.host, self._device)

    def __float__(self):
        return float(self.host)

    def get(self):
        return self.host.copy()

    def __int__(self):
        return int(self.host)

    def __len__(self):
        return len(self.host)


def cupy_module(kind=ndarray):
    """`kind`: the class of its arrays, made from an array in host memory."""
    module = types.ModuleType("cupy")
    module.ndarray = kind
    module.empty = lambda shape, dtype="float32": kind(np.empty(shape, dtype))
    module.asarray = lambda values, dtype=None: kind(np.array(getattr(values, "host", values), dtype))
    module.ascontiguousarray = lambda values: kind(np.ascontiguousarray(values.host))
    module.isfinite = lambda values: kind(np.isfinite(values.host))
    module.cuda = types.SimpleNamespace(get_current_stream=lambda: types.SimpleNamespace(ptr=STREAM))
    return module


class Backend(types.ModuleType):
    """hushvec._native._cuda. `calls` are the names of those that work on arrays, in order; `drawn` the key and nonce of every fill."""

    __version__ = hv.__version__

    def __init__(self):
        super().__init__("hushvec._native._cuda")
        self.calls, self.drawn, self.capturing = [], [], False

    def check_driver(self):
        pass

    def current_stream(self, x, index):
        return None

    def is_capturing(self, stream, index):
        return self.capturing

    def report_bytes(self):
        return 256

    def workspace_bytes(self, x, law="gaussian"):
        return 4096

    def fill_workspace_bytes(self):
        return 256

    def load_kernels(self, index):
        self.calls.append("load_kernels")

    def write_state(self, state, source, index, stream):
        assert not self.capturing and stream == STREAM
        self.calls.append("write_state")
        state.host[...] = _core._state_words(source)

    def fill(self, out, law, scale, source, workspace, stream):
        self.calls.append("fill")
        assert isinstance(source, ndarray) == self.capturing
        taken = _core._take_from_state(source.host) if self.capturing else source
        self.drawn.append(tuple(_core._state_words(taken)[:5]))

    def find_bad_row(self, x, workspace, stream):
        self.calls.append("find_bad_row")
        if self.capturing:
            raise RuntimeError("rows cannot be checked in a capture")
        bad = np.flatnonzero(~np.isfinite(np.atleast_2d(x.host)).all(axis=1))
        return int(bad[0]) if len(bad) else None

    def unit_rows(self, x, out, workspace, stream):
        self.calls.append("unit_rows")
        _core.unit_rows(x.host, out.host)

    def nearest_codes(self, x, codes, nearest, stream):
        assert x.flags.c_contiguous and x.ndim == 2 and stream == STREAM
        assert (x.dtype != "float64", codes.dtype, nearest.dtype) == (True, "float32", "int32")
        self.calls.append("nearest_codes")
        nearest.host[...] = nearest_codes(x.host.astype("float32"), codes.host)

    def copy_codes(self, codes, out, labels, workspace, stream):
        assert codes.flags.c_contiguous and workspace.shape == (256,) and stream == STREAM
        self.calls.append("copy_codes")
        if self.capturing:
            raise RuntimeError("randomized response cannot be captured")
        out.host[...] = codes.host
        bad = np.flatnonzero((out.host < 0) | (out.host >= labels))
        return int(bad[0]) if len(bad) else None

    def randomized_response(self, codes, labels, law, source, stream):
        assert stream == STREAM
        self.calls.append("randomized_response")
        codes.host[...] = _core.randomized_response(codes.host, labels, law, source)
