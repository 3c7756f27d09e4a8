"""JSON lines: a vector under a key, or a text under a key that is embedded first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._util.lines import copied_fields, field, json_line, json_object, lines_of_file, require_utf8, text_field
from hushvec.cli.files.base import DEFAULT_VECTOR, Columns, FileError, Part, rows_per_part
from hushvec.embedders.minilm import DIMENSION, MiniLMEmbedder

TEXTS_PER_PART = 256


class _Line(NamedTuple):
    """An object of the file, and where it stands."""

    where: str
    fields: dict[str, Any]


class JsonlSource:
    dtype = "float32"

    def __init__(self, path: Path, columns: Columns) -> None:
        self._path = path
        self._text = columns.text
        self._vector = columns.vector or DEFAULT_VECTOR
        self._keep = columns.keep
        taken = {self._text, self._vector}
        for name in self._keep:
            if name in taken:
                raise FileError(path, f"keep must not name {name!r}: it is what the noise protects")
        self.dimension = DIMENSION if self._text else self._first_length()

    def count(self) -> int:
        return sum(1 for _ in lines_of_file(self._path))

    def parts(self, *, rehearsal: bool = False) -> Iterator[Part]:
        lines = self._lines()
        size = TEXTS_PER_PART if self._text else rows_per_part(self.dimension)
        while part := list(islice(lines, size)):
            rows = self._vectors(part) if self._text is None else self._embedded(part, self._text, rehearsal)
            yield Part(rows, [copied_fields(line.fields, self._keep, line.where) for line in part])

    @contextmanager
    def sink(self, file: Any, dtype: str | None = None) -> Iterator[_JsonlSink]:
        yield _JsonlSink(file, self._vector)

    @cached_property
    def _embedder(self) -> MiniLMEmbedder:
        return MiniLMEmbedder()

    def _lines(self) -> Iterator[_Line]:
        return (_Line(where, json_object(line, where)) for where, line in lines_of_file(self._path))

    def _first_length(self) -> int:
        first = next(self._lines(), None)
        if first is None:
            raise FileError(self._path, "the file must hold at least one line")
        return len(self._list_of(first))

    def _embedded(self, part: list[_Line], text_key: str, rehearsal: bool) -> NDArray[np.float32]:
        texts = [require_utf8(text_field(line.fields, text_key, line.where), line.where) for line in part]
        return np.zeros((len(texts), DIMENSION), np.float32) if rehearsal else self._embedder.embed(texts)

    def _list_of(self, line: _Line) -> list[float]:
        values = field(line.fields, self._vector, line.where)
        if not isinstance(values, list) or not values or not all(type(value) in (float, int) for value in values):
            raise ValueError(f"{line.where}: {self._vector!r} must be a list of numbers")
        return values

    def _vectors(self, part: list[_Line]) -> NDArray[np.float32]:
        vectors = np.empty((len(part), self.dimension), np.float32)
        for row, line in enumerate(part):
            values, name = self._list_of(line), f"{line.where}: {self._vector!r}"
            if len(values) != self.dimension:
                raise ValueError(f"{name} must have {self.dimension} numbers like the first line, got {len(values)}")
            try:
                with np.errstate(over="ignore"):  # becomes Inf, which the release refuses by row
                    vectors[row] = np.array(values, np.float64)
            except OverflowError:
                raise ValueError(f"{name} holds a number beyond float64") from None
        return vectors


class _JsonlSink:
    def __init__(self, file: BinaryIO, vector: str) -> None:
        self._file, self._vector = file, vector

    def write(self, values: NDArray[Any], kept: list[dict[str, Any]]) -> None:
        for row, others in zip(values.tolist(), kept):
            self._file.write((json_line({**others, self._vector: row}) + "\n").encode())
