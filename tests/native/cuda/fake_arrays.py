"""Arrays that claim to lie in CUDA memory. Nothing may read them: they are for calls that must refuse before a launch."""

from __future__ import annotations

import numpy as np
from evidence.fuzz.dlpack_exporter import Exporter

CPU, CUDA = 1, 2
ARENA = np.zeros(1 << 18, np.uint8)


class OnDevice(Exporter):
    """DLPack, version 0 capsule, contiguous unless strides are given (in elements)."""

    def __init__(self, shape=(4, 8), strides=None, dtype="float32", *, offset=0, device=0, **said):
        super().__init__(ARENA, offset, shape, strides, dtype, **{"device_type": CUDA, "device_id": device, **said})
        self._device = device

    def __dlpack_device__(self):
        return CUDA, self._device


class OldExporter(OnDevice):
    """From before version 1: knows no max_version."""

    def __dlpack__(self, stream=None):
        return super().__dlpack__()


class Versioned:
    """A version 1 capsule. Its tensor is numpy's and says that it lies in CPU memory; only the method says otherwise."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, *, stream, max_version):
        assert stream == -1 and max_version == (1, 0)
        return self._array.__dlpack__(max_version=max_version)

    def __dlpack_device__(self):
        return CUDA, 0


class Interface:
    """`__cuda_array_interface__` alone."""

    def __init__(self, shape=(4, 8), typestr="<f4", *, strides=None, read_only=False, address=None, **more):
        address = ARENA.ctypes.data if address is None else address
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": typestr, "strides": strides, "data": (address, read_only), "version": 3, **more,
        }


def workspace(elements=1 << 14):
    return OnDevice((elements,), offset=1 << 15)
