"""Things that are no arrays the library could take: every one of them has to be refused."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from evidence.fuzz.dlpack_exporter import Exporter

try:
    import torch
except ImportError:
    torch = None

SHAPE = (3, 16)   # what each would be if it were sound
DTYPE = "float32"


class JunkError(Exception):
    """Raised by junk itself; it may pass through the library."""


class _Raises:
    def __dlpack__(self, **_: Any) -> Any:
        raise JunkError("no export today")


class _Returns:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __dlpack__(self, **_: Any) -> Any:
        return self.value


class _WantsArguments:
    def __dlpack__(self, stream: Any, device: Any) -> Any:
        raise AssertionError("unreachable")


class _NotCallable:
    __dlpack__ = 3


class _HiddenAttribute:
    @property
    def __dlpack__(self) -> Any:
        raise JunkError("no attribute today")


def _exporter(**said: Any) -> Exporter:
    shape, strides = said.pop("shape_said", SHAPE), said.pop("strides_said", None)
    return Exporter(np.zeros(4096, np.uint8), 0, shape, strides, DTYPE, **said)


def _structured() -> np.ndarray:
    return np.zeros(SHAPE, [("a", "f4"), ("b", "f4")])


def _numpy_dtypes() -> dict[str, Callable[[], Any]]:
    names = ("int8", "uint16", "int32", "int64", "uint64", "bool", "complex64", "complex128", "longdouble", "clongdouble", "object",
             "S4", "U3", "V4", "V8", ">f4", ">f8", ">f2", "datetime64[s]", "timedelta64[ms]")
    return {f"numpy {name}": lambda name=name: np.zeros(SHAPE, name) for name in names}


def _plain() -> dict[str, Callable[[], Any]]:
    return {
        "None": lambda: None,
        "int": lambda: 7,
        "str": lambda: "x" * 48,
        "bytes": lambda: bytes(192),
        "list": lambda: [[0.0] * 16] * 3,
        "memoryview": lambda: memoryview(np.zeros(SHAPE, np.float32)),
        "numpy scalar": lambda: np.float32(1.0),
        "numpy class": lambda: np.ndarray,
        "numpy structured": _structured,
        "numpy field": lambda: _structured()[["a"]],
        "dlpack raises": _Raises,
        "dlpack wants arguments": _WantsArguments,
        "dlpack not callable": _NotCallable,
        "dlpack hidden": _HiddenAttribute,
        "dlpack class": lambda: Exporter,
        "dlpack returns None": lambda: _Returns(None),
        "dlpack returns int": lambda: _Returns(2**63),
        "dlpack returns self": lambda: _Returns(np.zeros(SHAPE, np.float32)),
        "capsule used": lambda: _exporter(name=b"used_dltensor"),
        "capsule versioned": lambda: _exporter(name=b"dltensor_versioned"),
        "capsule unnamed": lambda: _exporter(name=b""),
        "capsule cuda": lambda: _exporter(device_type=2),
        "capsule cuda managed": lambda: _exporter(device_type=13),
        "capsule null": lambda: _exporter(data=None),
        "capsule 0-d": lambda: _exporter(ndim=0),
        "capsule 3-d": lambda: _exporter(shape_said=(1, 3, 16)),
        "capsule ndim -1": lambda: _exporter(ndim=-1),
        "capsule ndim huge": lambda: _exporter(ndim=2**31 - 1),
        "capsule negative rows": lambda: _exporter(shape_said=(-3, 16)),
        "capsule negative columns": lambda: _exporter(shape_said=(3, -16)),
        "capsule both negative": lambda: _exporter(shape_said=(-3, -16)),
        "capsule uint": lambda: _exporter(code=1),
        "capsule complex": lambda: _exporter(code=5, bits=64),
        "capsule lanes": lambda: _exporter(lanes=4, shape_said=(3, 4)),
        "capsule no lanes": lambda: _exporter(lanes=0),
        "capsule 8 bits": lambda: _exporter(bits=8),
        "capsule 128 bits": lambda: _exporter(bits=128),
        "capsule bfloat 32": lambda: _exporter(code=4, bits=32),
    }


def _tensors() -> dict[str, Callable[[], Any]]:
    if torch is None:
        return {}
    from torch._subclasses.fake_tensor import FakeTensorMode

    def zeros(**options: Any) -> Any:
        return torch.zeros(SHAPE, **options)

    def fake() -> Any:
        with FakeTensorMode():
            return torch.empty(SHAPE)

    def quietly(make: Callable[[], Any]) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return make()

    cases: dict[str, Callable[[], Any]] = {
        f"torch {name}": lambda name=name: zeros(dtype=getattr(torch, name))
        for name in ("int8", "int32", "int64", "uint8", "bool", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2")
    }
    cases |= {
        "torch class": lambda: torch.Tensor,
        "torch parameter": lambda: torch.nn.Parameter(zeros()),
        "torch result with gradient": lambda: zeros(requires_grad=True) * 2,
        "torch coo": lambda: torch.ones(SHAPE).to_sparse(),
        "torch csr": lambda: quietly(lambda: torch.ones(SHAPE).to_sparse_csr()),
        "torch meta": lambda: zeros(device="meta"),
        "torch fake": fake,
        "torch without memory": lambda: torch._efficientzerotensor(SHAPE),
        "torch conjugate": lambda: zeros(dtype=torch.complex64).conj(),
        "torch negated": lambda: torch.zeros(SHAPE, dtype=torch.complex64).conj().imag,
        "torch quantized": lambda: quietly(lambda: torch.quantize_per_tensor(zeros(), 0.1, 0, torch.qint8)),
    }
    return cases


BROKEN: dict[str, Callable[[], Any]] = dict(itertools.chain(_plain().items(), _numpy_dtypes().items(), _tensors().items()))

# No float arrays, but numbers: public functions take them as x, in float32. The processor reads managed memory of CUDA.
NUMBERS = ("list", "capsule uint", "capsule cuda managed",
           *(f"numpy {name}" for name in ("int8", "uint16", "int32", "int64", "uint64")),
           *(f"torch {name}" for name in ("int8", "uint8", "int32", "int64")))

# Tensors that torch itself can compute with, so that a function which works in Python may take them.
READABLE_BY_TORCH = ("torch fake", "torch without memory", "torch negated")
