"""Vectors in .npy files, memory-mapped for reading and written plainly, and in an array of a .npz file."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from hushvec._native.arrays import NUMPY_DTYPES
from hushvec._native.rowwise import as_array, dtype_after
from hushvec.cli.vectors import source
from hushvec.cli.vectors.source import Columns, FileError, Part, Sink, Source, naming

_MOST_HEADER = 10_000  # bytes, as numpy's own limit


class NpySource(Source):
    taken_from = "the array"

    def __init__(self, path: Path, columns: Columns) -> None:
        if columns != Columns():
            raise FileError(path, "a .npy file has no columns or keys to name")
        super().__init__(path, columns)
        readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        with path.open("rb") as file:
            try:
                version = npy.read_magic(file)
                if version not in readers:
                    raise ValueError(f"version {version} is unknown")
                length = int.from_bytes(file.read(2 * version[0]), "little")
                if length > _MOST_HEADER:  # numpy reads it whole before it refuses it
                    raise ValueError(f"its header must have at most {_MOST_HEADER} bytes, says {length}")
                file.seek(npy.MAGIC_LEN)
                shape, self._fortran_order, stored = readers[version](file)
            except (ValueError, EOFError) as error:
                raise FileError(path, f"not a .npy file of numbers: {error}") from None
            self._offset = file.tell()
        expected = self._offset + stored.itemsize * int(np.prod(shape, dtype=object))
        self._check(shape, stored)
        if (actual := os.path.getsize(path)) < expected:
            raise FileError(path, f"the file is cut short: {expected} bytes expected, got {actual}")
        self._refuse_packed()

    def _check(self, shape: tuple[int, ...], stored: np.dtype[Any]) -> None:
        self._shape, self._stored, self.dtype = shape, stored, dtype_after(stored)
        if len(shape) not in (1, 2):
            raise FileError(self._path, f"{self.taken_from} must have 1 or 2 dimensions, got {len(shape)}")
        if self.dtype not in NUMPY_DTYPES:
            raise FileError(self._path, f"{self.taken_from} must be {' or '.join(NUMPY_DTYPES)}, got {self.dtype}")
        if shape[-1] < 1:
            raise FileError(self._path, f"{self.taken_from} must have at least 1 column, got 0")
        self.dimension = shape[-1]

    def _refuse_packed(self) -> None:
        if source.is_packed(self._mapped()[: source.BYTES_TO_JUDGE]):
            raise FileError(self._path, source.packed(self.taken_from))

    def count(self) -> int:
        return self._shape[0] if len(self._shape) == 2 else 1

    def parts(self, *, rehearsal: bool = False) -> Iterator[Part]:
        matrix, step = self._mapped(), source.rows_per_part(self.dimension)
        for first in range(0, len(matrix), step):
            # A copy: what was checked is what is released, even if another program writes to the file meanwhile.
            rows = np.array(matrix[first : first + step], self._stored.newbyteorder("="), order="C")
            with naming(self._path):
                floats: NDArray[Any] = as_array("the array", rows)
            yield Part(floats, self._beside(slice(first, first + step)))

    def _beside(self, rows: slice) -> dict[str, Any]:
        return {}

    def mapped(self) -> NDArray[Any]:
        """Return all rows [n, d], of the processor's byte order; floats are read from the file as they are needed."""
        stored = self._mapped()
        with naming(self._path):
            floats: NDArray[Any] = as_array("the array", np.asarray(stored, self._stored.newbyteorder("=")))
        return floats

    def _mapped(self) -> NDArray[Any]:
        if self.count() == 0:
            return np.empty(self._shape, self._stored)
        order = "F" if self._fortran_order else "C"
        stored: NDArray[Any] = np.memmap(self._path, self._stored, "r", self._offset, self._shape, order)  # type: ignore[call-overload]
        return stored.reshape(1, -1) if stored.ndim == 1 else stored

    @contextmanager
    def sink(self, file: Any, dtype: str | None = None) -> Iterator[Sink]:
        written = np.dtype(self.dtype if dtype is None else dtype)
        header = {"descr": npy.dtype_to_descr(written), "fortran_order": False, "shape": self._shape}
        npy.write_array_header_1_0(file, header)
        yield lambda values, kept: file.write(values.data)


class NpzSource(NpySource):
    """An array of a .npz file, the only one unless it is named; read into memory. Others that have as many rows may be kept."""

    def __init__(self, path: Path, columns: Columns) -> None:
        if columns.text is not None:
            raise FileError(path, "texts are embedded from .jsonl and .csv files; name an array of vectors")
        try:
            with np.load(path) as arrays:
                names = arrays.files
                if columns.vector is None and len(names) == 1:
                    columns = columns._replace(vector=names[0])
                Source.__init__(self, path, columns)
                if absent := [name for name in (self._vector, *self._keep) if name not in names]:
                    raise FileError(path, f"must have an array {absent[0]!r}, got {', '.join(map(repr, names)) or 'none'}")
                self._array: NDArray[Any] = arrays[self._vector]
                self._others = {name: arrays[name] for name in self._keep}
        except (zipfile.BadZipFile, AttributeError, EOFError) as error:  # of a .npy file under this name np.load makes an array
            raise FileError(path, f"not a .npz file: {error}") from None
        except ValueError as error:
            raise error if isinstance(error, FileError) else FileError(path, f"not a .npz file of numbers: {error}") from None
        self.taken_from = f"array {self._vector!r}"
        self._check(self._array.shape, self._array.dtype)
        for name, array in self._others.items():
            if array.shape[:1] != (self.count(),):
                raise FileError(path, f"array {name!r} must have {self.count()} rows like {self._vector!r}, got shape {array.shape}")
        self._refuse_packed()

    def _mapped(self) -> NDArray[Any]:
        rows: NDArray[Any] = self._array.reshape(-1, self.dimension)
        return rows

    def _beside(self, rows: slice) -> dict[str, Any]:
        return {name: array[rows].tolist() for name, array in self._others.items()}

    @contextmanager
    def sink(self, file: Any, dtype: str | None = None) -> Iterator[Sink]:
        with zipfile.ZipFile(file, "w") as folder:
            for name, array in self._others.items():
                with folder.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    npy.write_array(entry, array, allow_pickle=False)
            with folder.open(f"{self._vector}.npy", "w", force_zip64=True) as entry, super().sink(entry, dtype) as write:
                yield write
