"""Vectors in one column of float lists in Parquet, Arrow and Feather files and folders of them, streamed by record batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec.cli.vectors.source import Columns, FileError, Part, Sink, Source, naming, packed, rows_per_part
from hushvec.jobs import columns
from hushvec.jobs.tables import ARROW, open_table, table_writer


class TableSource(Source):
    def __init__(self, path: Path, named: Columns) -> None:
        if named.text is not None:
            raise FileError(path, "texts are embedded from .jsonl and .csv files; name a column of vectors")
        super().__init__(path, named)
        with naming(path):
            self._file = open_table(path)
        import pyarrow

        self._arrow: Any = pyarrow
        self._schema = self._file.schema
        self.taken_from = f"column {self._vector!r}"
        self._check_columns()
        self.dtype = str(np.dtype(self._schema.field(self._vector).type.value_type.to_pandas_dtype()).name)
        self.dimension = self._dimension()

    def count(self) -> int:
        return self._file.rows

    def parts(self, *, rehearsal: bool = False) -> Iterator[Part]:
        first_row = 0
        for batch in self._batches(rows_per_part(self.dimension)):
            label = lambda row, first=first_row: f"row {first + row}"
            with naming(self._path):
                values = columns.vectors_of(f"column {self._vector!r}", batch.column(self._vector), self.dimension, label)
            yield Part(np.array(values), {name: batch.column(name) for name in self._keep})
            first_row += batch.num_rows

    def beside(self, part: Part, name: str) -> list[Any]:
        values: list[Any] = part.kept[name].to_pylist()
        return values

    @contextmanager
    def sink(self, file: Any, dtype: str | None = None) -> Iterator[Sink]:
        arrow, kind = self._arrow, self._vector_type(dtype)
        schema = arrow.schema([*map(self._schema.field, self._keep), arrow.field(self._vector, kind, nullable=False)])

        def write(values: NDArray[Any], kept: dict[str, Any]) -> None:
            vectors = columns.fixed_size_lists(values).cast(kind)
            writer.write_batch(arrow.RecordBatch.from_arrays([*kept.values(), vectors], schema=schema))

        try:
            with table_writer(file, suffix_of(self._path), schema, stream=getattr(self._file, "is_stream", False)) as writer:
                yield write
        except arrow.ArrowException as error:
            raise FileError(self._path, f"a column cannot be copied: {error}") from None

    def _check_columns(self) -> None:
        for name in (self._vector, *self._keep):
            if self._schema.names.count(name) != 1:
                raise FileError(self._path, f"must have one column {name!r}, got {', '.join(map(repr, self._schema.names))}")
        column = self._schema.field(self._vector).type
        if not columns.is_of_floats(column):
            hint = f" ({packed('it')})" if "int8" in str(column) or "binary" in str(column) else ""
            raise FileError(self._path, f"column {self._vector!r} must hold lists of floats, got {column}{hint}")

    def _vector_type(self, dtype: str | None) -> Any:
        """Return the column's own type, its inner field reduced to a name and a number: the column's own if dtype is None."""
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
        with naming(self._path):
            yield from self._file.batches(size, [self._vector, *self._keep])


def suffix_of(path: Path) -> str:
    """Return the suffix of a file; that of Arrow for a folder, as which Hugging Face's `save_to_disk` writes a data set."""
    return ARROW if path.is_dir() else path.suffix.lower()
