"""Parquet files: one column of float lists, streamed by record batches. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util.lazy import needs_extra
from hushvec.cli.files.base import DEFAULT_VECTOR, Columns, FileError, Part, rows_per_part
from hushvec.jobs import columns


class ParquetSource:
    def __init__(self, path: Path, named: Columns) -> None:
        if named.text is not None:
            raise FileError(path, "texts are embedded from .jsonl files only; name a column of vectors")
        self._arrow, parquet = _import_pyarrow()
        self._parquet = parquet
        self._path = path
        self._vector = named.vector or DEFAULT_VECTOR
        self._keep = named.keep
        with path.open("rb"):  # an absent or unreadable file raises the system's error
            pass
        try:
            self._file = parquet.ParquetFile(path)
        except (self._arrow.ArrowException, OSError) as error:
            raise FileError(path, f"not a parquet file: {error}") from None
        self._schema = self._file.schema_arrow
        self._check_columns()
        self.dtype = str(np.dtype(self._schema.field(self._vector).type.value_type.to_pandas_dtype()).name)
        self.dimension = self._dimension()

    def count(self) -> int:
        rows: int = self._file.metadata.num_rows
        return rows

    def parts(self, *, rehearsal: bool = False) -> Iterator[Part]:
        first_row = 0
        for batch in self._batches(rows_per_part(self.dimension)):
            yield Part(self._values(batch, first_row), batch.select(self._keep))
            first_row += batch.num_rows

    @contextmanager
    def sink(self, file: Any, dtype: str | None = None) -> Iterator[_ParquetSink]:
        field = self._arrow.field(self._vector, self._vector_type(dtype), nullable=False)
        schema = self._arrow.schema([*(self._schema.field(name) for name in self._keep), field])
        try:
            with self._parquet.ParquetWriter(file, schema) as writer:
                yield _ParquetSink(self._arrow, writer, schema)
        except self._arrow.ArrowException as error:
            raise FileError(self._path, f"a column cannot be copied: {error}") from None

    def _check_columns(self) -> None:
        for name in (self._vector, *self._keep):
            if self._schema.names.count(name) != 1:
                raise FileError(self._path, f"must have one column {name!r}, got {', '.join(map(repr, self._schema.names))}")
        if self._vector in self._keep:
            raise FileError(self._path, f"keep must not name {self._vector!r}: it is what the noise protects")
        column = self._schema.field(self._vector).type
        if not columns.is_of_floats(column):
            raise FileError(self._path, f"column {self._vector!r} must hold lists of floats, got {column}")

    def _vector_type(self, dtype: str | None) -> Any:
        """The column's own type, its inner field reduced to a name and a number: the column's own if dtype is None."""
        arrow, column = self._arrow, self._schema.field(self._vector).type
        element = column.value_type if dtype is None else arrow.from_numpy_dtype(np.dtype(dtype))
        if arrow.types.is_fixed_size_list(column):
            return arrow.list_(element, column.list_size)
        return arrow.large_list(element) if arrow.types.is_large_list(column) else arrow.list_(element)

    def _dimension(self) -> int:
        length = columns.declared_length(self._schema.field(self._vector).type)
        if length is None:
            first = next((batch for batch in self._batches(1) if batch.num_rows), None)
            if first is None:
                raise FileError(self._path, f"column {self._vector!r} must hold at least one row of known length")
            length = len(first.column(self._vector)[0].as_py() or ())
        if length < 1:
            raise FileError(self._path, f"column {self._vector!r} must hold vectors of at least 1 number, got 0 in row 0")
        return length

    def _batches(self, size: int) -> Iterator[Any]:
        try:
            yield from self._file.iter_batches(batch_size=size, columns=[self._vector, *self._keep])
        except (self._arrow.ArrowException, OSError) as error:
            raise FileError(self._path, f"the file is damaged: {error}") from None

    def _values(self, batch: Any, first_row: int) -> NDArray[Any]:
        def label(row: int) -> str:
            return f"row {first_row + row}"

        try:
            values = columns.vectors_of(f"column {self._vector!r}", batch.column(self._vector), self.dimension, label)
        except ValueError as error:
            raise FileError(self._path, str(error)) from None
        return np.array(values)


class _ParquetSink:
    def __init__(self, arrow: Any, writer: Any, schema: Any) -> None:
        self._arrow, self._writer, self._schema = arrow, writer, schema

    def write(self, values: NDArray[Any], kept: Any) -> None:
        arrow, kind = self._arrow, self._schema.field(len(self._schema) - 1).type
        rows, dimension = values.shape
        if arrow.types.is_fixed_size_list(kind):
            vectors = columns.fixed_size_lists(values)
        else:
            flat = arrow.array(values.reshape(-1), kind.value_type)
            large = arrow.types.is_large_list(kind)
            offsets = np.arange(0, rows * dimension + 1, dimension).astype(np.int64 if large else np.int32)
            vectors = (arrow.LargeListArray if large else arrow.ListArray).from_arrays(offsets, flat)
        self._writer.write_batch(arrow.RecordBatch.from_arrays([*kept.columns, vectors], schema=self._schema))


def _import_pyarrow() -> tuple[Any, Any]:
    with needs_extra("reading parquet files", "cli"):
        import pyarrow
        import pyarrow.parquet
    return pyarrow, pyarrow.parquet
