"""numpy .npy files: memory-mapped for reading, written plainly."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from hushvec._native.arrays import NUMPY_DTYPES
from hushvec._native.rowwise import as_array, dtype_after
from hushvec.cli.files.base import Columns, FileError, Part, rows_per_part


class NpySource:
    def __init__(self, path: Path, columns: Columns) -> None:
        if columns != Columns():
            raise FileError(path, "a .npy file has no columns or keys to name")
        self._path = path
        with path.open("rb") as file:
            self._shape, self._fortran_order, self._stored = _header(path, file)
            self._offset = file.tell()
        self.dtype = dtype_after(self._stored)
        self._check()
        self.dimension = self._shape[-1]

    def count(self) -> int:
        return self._shape[0] if len(self._shape) == 2 else 1

    def parts(self, *, rehearsal: bool = False) -> Iterator[Part]:
        if self.count() == 0:
            return
        order = "F" if self._fortran_order else "C"
        stored = np.memmap(self._path, self._stored, mode="r", offset=self._offset, shape=self._shape, order=order)  # type: ignore[call-overload]
        matrix = stored.reshape(1, -1) if stored.ndim == 1 else stored
        step = rows_per_part(self.dimension)
        for first in range(0, len(matrix), step):
            # A copy: what was checked is what is released, even if another program writes to the file meanwhile.
            rows = np.array(matrix[first : first + step], self._stored.newbyteorder("="), order="C")
            yield Part(self._floats(rows), None)

    @contextmanager
    def sink(self, file: Any, dtype: str | None = None) -> Iterator[_NpySink]:
        written = np.dtype(self.dtype if dtype is None else dtype)
        header = {"descr": npy.dtype_to_descr(written), "fortran_order": False, "shape": self._shape}
        npy.write_array_header_1_0(file, header)
        yield _NpySink(file)

    def _floats(self, rows: NDArray[Any]) -> NDArray[Any]:
        try:
            floats: NDArray[Any] = as_array("the array", rows)
        except ValueError as error:
            raise FileError(self._path, str(error)) from None
        return floats

    def _check(self) -> None:
        if len(self._shape) not in (1, 2):
            raise FileError(self._path, f"the array must have 1 or 2 dimensions, got {len(self._shape)}")
        if self.dtype not in NUMPY_DTYPES:
            raise FileError(self._path, f"the array must be {' or '.join(NUMPY_DTYPES)}, got {self.dtype}")
        if self._shape[-1] < 1:
            raise FileError(self._path, "the array must have at least 1 column, got 0")
        expected = self._offset + self._stored.itemsize * int(np.prod(self._shape, dtype=object))
        actual = os.path.getsize(self._path)
        if actual < expected:
            raise FileError(self._path, f"the file is cut short: {expected} bytes expected, got {actual}")


class _NpySink:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, values: NDArray[Any], kept: Any) -> None:
        self._file.write(values.data)


def _header(path: Path, file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    try:
        version = npy.read_magic(file)
        if version not in readers:
            raise ValueError(f"version {version} is unknown")
        return readers[version](file)
    except (ValueError, EOFError) as error:
        raise FileError(path, f"not a .npy file of numbers: {error}") from None
