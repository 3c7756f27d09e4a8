"""JSON lines: a vector under a key, or a text under a key that is embedded first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from hushvec._util.lines import is_unicode, json_line
from hushvec.cli.files import DEFAULT_VECTOR, Columns, FileError, Part, rows_per_part
from hushvec.embedders.minilm import DIMENSION, MiniLMEmbedder

TEXTS_PER_PART = 256


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
        return sum(1 for _ in self._lines())

    def parts(self, *, rehearsal: bool = False) -> Iterator[Part]:
        lines = self._lines()
        if self._text is None:
            while numbered := list(islice(lines, rows_per_part(self.dimension))):
                records = [self._record(*line) for line in numbered]
                yield Part(self._vectors(numbered, records), self._kept(numbered, records))
            return
        embedder = self._embedder
        while numbered := list(islice(lines, TEXTS_PER_PART)):
            records = [self._record(*line) for line in numbered]
            texts = [self._text_of(number, record) for (number, _), record in zip(numbered, records)]
            rows = np.zeros((len(texts), DIMENSION), np.float32) if rehearsal else embedder.embed(texts)
            yield Part(rows, self._kept(numbered, records))

    @contextmanager
    def sink(self, file: Any) -> Iterator[_JsonlSink]:
        yield _JsonlSink(file, self._vector)

    @cached_property
    def _embedder(self) -> MiniLMEmbedder:
        return MiniLMEmbedder()

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """(line number from 1, line) of every line that is not blank."""
        with self._path.open("rb") as file:
            yield from ((number, line) for number, line in enumerate(file, 1) if line.strip())

    def _first_length(self) -> int:
        first = next(self._lines(), None)
        if first is None:
            raise FileError(self._path, "the file must hold at least one line")
        return len(self._list_of(first[0], self._record(*first)))

    def _record(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self._fault(number, f"not JSON: {error}") from None
        if not isinstance(record, dict):
            raise self._fault(number, f"must be an object, got {type(record).__name__}")
        return record

    def _field(self, number: int, record: dict[str, Any], name: str) -> Any:
        if name not in record:
            raise self._fault(number, f"has no key {name!r}")
        return record[name]

    def _text_of(self, number: int, record: dict[str, Any]) -> str:
        assert self._text is not None
        text = self._field(number, record, self._text)
        if not isinstance(text, str):
            raise self._fault(number, f"{self._text!r} must be a string, got {type(text).__name__}")
        if not is_unicode(text):
            raise self._fault(number, f"{self._text!r} must have no half of a surrogate pair")
        return text

    def _list_of(self, number: int, record: dict[str, Any]) -> list[float]:
        values = self._field(number, record, self._vector)
        if not isinstance(values, list) or not values or not all(type(value) in (float, int) for value in values):
            raise self._fault(number, f"{self._vector!r} must be a list of numbers")
        return values

    def _vectors(self, numbered: list[tuple[int, bytes]], records: list[dict[str, Any]]) -> NDArray[np.float32]:
        vectors = np.empty((len(records), self.dimension), np.float32)
        for row, ((number, _), record) in enumerate(zip(numbered, records)):
            values = self._list_of(number, record)
            if len(values) != self.dimension:
                raise self._fault(
                    number, f"{self._vector!r} must have {self.dimension} numbers like the first line, got {len(values)}"
                )
            try:
                with np.errstate(over="ignore"):  # becomes Inf, which the release refuses by row
                    vectors[row] = np.array(values, np.float64)
            except OverflowError:
                raise self._fault(number, f"{self._vector!r} holds a number beyond float64") from None
        return vectors

    def _kept(self, numbered: list[tuple[int, bytes]], records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [self._copied(number, record) for (number, _), record in zip(numbered, records)]

    def _copied(self, number: int, record: dict[str, Any]) -> dict[str, Any]:
        """The fields to keep, which the output can hold."""
        kept = {name: self._field(number, record, name) for name in self._keep}
        for name, value in kept.items():
            try:
                json_line(value)
            except ValueError as reason:
                raise self._fault(number, f"{name!r} cannot be copied: {reason}") from None
        return kept

    def _fault(self, number: int, message: str) -> FileError:
        return FileError(self._path, f"line {number}: {message}")


class _JsonlSink:
    def __init__(self, file: BinaryIO, vector: str) -> None:
        self._file, self._vector = file, vector

    def write(self, values: NDArray[Any], kept: list[dict[str, Any]]) -> None:
        for row, others in zip(values.tolist(), kept):
            self._file.write((json_line({**others, self._vector: row}) + "\n").encode())
