"""Vectors, or texts that are embedded first, under a key of JSON objects: a line each, or a list of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util.lines import copied_fields, decoded, json_line, json_object, lines_of_file, nested_field, require_utf8
from hushvec.cli.vectors.source import Columns, FileError, Part, Sink, Source, rows_per_part
from hushvec.text import MiniLMEmbedder

TEXTS_PER_PART = 256
Line = tuple[str, dict[str, Any]]  # where an object of the file stands, and the object
Item = tuple[str, Any, dict[str, Any]]  # where a row stands, its vector or text, and what is kept


class JsonlSource(Source):
    """Where a key leads to a list of vectors or texts, as in an answer of a service, every one of them is a row."""

    dtype = "float32"
    _ends = "", "\n", "\n"  # before the objects of a file, between them, and after them

    def __init__(self, path: Path, columns: Columns) -> None:
        super().__init__(path, columns)
        self._text = columns.text
        self._protected = self._text or self._vector
        self.taken_from = f"key {self._vector!r}" if self._text is None else f"texts under {self._text!r}, embedded"
        self._look(next(self._lines(), None))
        first = next(self._items(), None)
        if first is None:
            raise FileError(self._path, "the file must hold at least one line, and one row")
        self.dimension = MiniLMEmbedder.dimension if self._text else len(self._list_of(*first[:2]))

    def _look(self, first: Line | None) -> None:
        """Find out from the first object how a row is found in each."""
        found = None if first is None else nested_field(first[1], self._protected, first[0])
        self._is_many = isinstance(found, list) and all(isinstance(one, str if self._text else list) for one in found)

    def count(self) -> int:
        return sum(1 for _ in (self._items() if self._is_many else self._lines_alone()))

    def _lines_alone(self) -> Iterator[Any]:
        return lines_of_file(self._path)

    def parts(self, *, rehearsal: bool = False) -> Iterator[Part]:
        items = self._items()
        size = TEXTS_PER_PART if self._text else rows_per_part(self.dimension)
        while part := list(islice(items, size)):
            rows = self._vectors(part) if self._text is None else self._embedded(part, rehearsal)
            yield Part(rows, {name: [kept[name] for *_, kept in part] for name in self._keep})

    @contextmanager
    def sink(self, file: Any, dtype: str | None = None) -> Iterator[Sink]:
        before, between, after = self._ends

        def write(values: NDArray[Any], kept: dict[str, Any]) -> None:
            nonlocal before
            for *others, row in zip(*kept.values(), values.tolist()):
                file.write((before + json_line(_nest({**dict(zip(kept, others)), self._vector: row}))).encode())
                before = between

        yield write
        file.write((before * (before != between) + after).encode())

    @cached_property
    def _embedder(self) -> MiniLMEmbedder:
        return MiniLMEmbedder()

    def _lines(self) -> Iterator[Line]:
        return ((where, json_object(line, where)) for where, line in lines_of_file(self._path))

    def _items(self) -> Iterator[Item]:
        for where, fields in self._lines():
            kept = copied_fields(fields, self._keep, where)
            found = self._given(where, fields)
            if not self._is_many:
                yield where, found, kept
                continue
            if not isinstance(found, list):
                raise ValueError(f"{where}: {self._protected!r} must be a list like that of the first, got {type(found).__name__}")
            for name, values in kept.items():
                if isinstance(values, list) and len(values) != len(found):
                    raise ValueError(f"{where}: {name!r} must have {len(found)} values, one for each row, got {len(values)}")
            for row, one in enumerate(found):
                yield f"{where}, row {row}", one, {name: all_[row] if isinstance(all_, list) else all_ for name, all_ in kept.items()}

    def _given(self, where: str, fields: dict[str, Any]) -> Any:
        return nested_field(fields, self._protected, where)

    def _embedded(self, part: list[Item], rehearsal: bool) -> NDArray[np.float32]:
        for where, text, _ in part:
            if not isinstance(text, str):
                raise ValueError(f"{where}: {self._text!r} must be a string, got {type(text).__name__}")
        texts = [require_utf8(text, where) for where, text, _ in part]
        return np.zeros((len(texts), MiniLMEmbedder.dimension), np.float32) if rehearsal else self._embedder.embed(texts)

    def _list_of(self, where: str, values: Any) -> list[float]:
        if not isinstance(values, list) or not values or not all(type(value) in (float, int) for value in values):
            hint = ", got a string (encoding_format='float' of a service gives numbers)" if isinstance(values, str) else ""
            raise ValueError(f"{where}: {self._vector!r} must be a list of numbers{hint}")
        return values

    def _vectors(self, part: list[Item]) -> NDArray[np.float32]:
        vectors = np.empty((len(part), self.dimension), np.float32)
        for row, (where, given, _) in enumerate(part):
            values, name = self._list_of(where, given), f"{where}: {self._vector!r}"
            if len(values) != self.dimension:
                raise ValueError(f"{name} must have {self.dimension} numbers like the first line, got {len(values)}")
            try:
                with np.errstate(over="ignore"):  # becomes Inf, which the release refuses by row
                    vectors[row] = np.array(values, np.float64)
            except OverflowError:
                raise ValueError(f"{name} holds a number beyond float64") from None
        return vectors


def _nest(fields: dict[str, Any]) -> dict[str, Any]:
    """Turn names with dots into objects in objects again."""
    nested: dict[str, Any] = {}
    for name, value in fields.items():
        *path, last = name.split(".")
        inside = nested
        for key in path:
            inside = inside.setdefault(key, {})
        inside[last] = value
    return nested


class JsonSource(JsonlSource):
    _ends = "[\n", ",\n", "\n]\n"

    def _lines(self) -> Iterator[Line]:
        try:
            found = json.loads(decoded(str(self._path), self._path.read_bytes()).removeprefix("\ufeff"))
        except (ValueError, RecursionError) as error:
            raise FileError(self._path, f"not JSON: {error}") from None
        for number, fields in enumerate(found if isinstance(found, list) else [found]):
            if not isinstance(fields, dict):
                raise FileError(self._path, f"must be an object or a list of objects, got {type(fields).__name__} in it")
            yield f"{self._path}: object {number}", fields

    def _lines_alone(self) -> Iterator[Any]:
        return self._lines()
