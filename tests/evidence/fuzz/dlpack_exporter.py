"""Objects with `__dlpack__` whose capsule says what the test wants, true or not, and that count how often it was freed."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

CPU = 1
DTYPES = {"float16": (2, 16), "float32": (2, 32), "float64": (2, 64), "bfloat16": (4, 16),
          "int8": (0, 8), "int32": (0, 32), "int64": (0, 64)}   # type code, bits
NAME = b"dltensor"


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))


# A handle of our own: `ctypes.pythonapi` is shared, and other libraries declare the same functions with other arguments.
_python = ctypes.PyDLL(None)
_new = _python.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_is_valid = _python.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, (ctypes.c_void_p, ctypes.c_char_p)
_pointer = _python.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_char_p)
# A library may drop a capsule while it raises, and no Python code may run on top of an error.
_clear = _python.PyErr_Clear

_live: dict[int, tuple[Exporter, Any]] = {}   # exported structures by address: they must outlive the capsule


@_Deleter
def _free(address: int) -> None:
    _clear()
    exporter, _ = _live.pop(address)
    exporter.live -= 1


@_Deleter
def _capsule_dies(capsule: int) -> None:   # still named "dltensor": nobody took the tensor over
    _clear()
    if _is_valid(capsule, NAME):
        _free(_pointer(capsule, NAME))


class Exporter:
    """Exports `arena` from byte `offset`; strides count elements, None means row-major. Keywords overwrite what the capsule says."""

    def __init__(self, arena: np.ndarray, offset: int, shape: Sequence[int], strides: Sequence[int] | None, dtype: str, **said: Any):
        self.arena, self.offset, self.dtype = arena, offset, dtype
        self._exported_shape, self._exported_strides = tuple(shape), None if strides is None else tuple(strides)
        self.said = said
        self.name: bytes = said.pop("name", NAME)
        self.live = 0

    def __dlpack__(self, **_: Any) -> Any:
        managed = _Managed()
        tensor = managed.tensor
        tensor.data = self.arena.ctypes.data
        tensor.byte_offset = self.offset
        tensor.device_type = CPU
        tensor.ndim = len(self._exported_shape)
        tensor.code, tensor.bits = DTYPES[self.dtype]
        tensor.lanes = 1
        room = max(2, len(self._exported_shape))
        shape = (ctypes.c_int64 * room)(*self._exported_shape)
        tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
        strides = None
        if self._exported_strides is not None:
            strides = (ctypes.c_int64 * room)(*self._exported_strides)
            tensor.strides = ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64))
        for field, value in self.said.items():
            setattr(tensor, field, value)
        managed.deleter = _free
        address = ctypes.addressof(managed)
        _live[address] = (self, (managed, shape, strides))
        self.live += 1
        return _new(address, self.name, _destructor(self.name))

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU, 0


# A capsule under another name is freed through that name; the name's bytes must stay where they are.
_destructors: dict[bytes, Any] = {NAME: _capsule_dies}


def _destructor(name: bytes) -> Any:
    if name not in _destructors:

        def dies(capsule: int) -> None:
            _clear()
            _free(_pointer(capsule, name))

        _destructors[name] = _Deleter(dies)
    return ctypes.cast(_destructors[name], ctypes.c_void_p)
