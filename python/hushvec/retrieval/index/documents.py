"""Texts and metadata beside the rows of an index: stored and returned as they are, without protection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec._util.lines import field, json_line, json_object, lines_of_file, require_utf8

NOTE_BESIDE = "texts or metadata are stored beside the rows as they are: this receipt says nothing about them"

Metadata = dict[str, Any]


class StoredDocument(NamedTuple):
    """The text and metadata of a row.

    Args:
        id: of the row.
        text: as it was added; None without one.
        metadata: as it was added, a copy; empty without any.
    """

    id: int | str
    text: str | None
    metadata: Metadata


class Beside(NamedTuple):
    """Checked texts and metadata of some rows; None where a row has none."""

    texts: list[str | None]
    metadata: list[Metadata | None]

    @classmethod
    def checked(cls, texts: Any, metadata: Any, rows: int) -> Beside:
        """Checked texts and metadata for so many rows; None means that no row has any.

        Raises:
            TypeError: no sequence, or something in it that is not a str, or not a mapping of JSON values.
            ValueError: not one for each row; NaN, an infinity or half of a surrogate pair, which no file could hold; a key that
                begins with "$", as the operators of filters do.
        """
        return cls(
            [None] * rows if texts is None else _texts(texts, rows), [None] * rows if metadata is None else _metadata(metadata, rows)
        )

    @property
    def is_nothing(self) -> bool:
        """Whether no row has a text or metadata."""
        return self.texts.count(None) == len(self.texts) and not any(self.metadata)


class Documents:
    """Texts and metadata in the order of the rows."""

    def __init__(self, beside: Beside | None = None) -> None:
        self._texts, self._metadata = Beside([], []) if beside is None else beside

    def __len__(self) -> int:
        return len(self._texts)

    def append(self, new: Beside) -> None:
        self._texts += new.texts
        self._metadata += new.metadata

    def remove(self, places: NDArray[np.int64]) -> None:
        gone = set(places.tolist())
        self._texts = [text for place, text in enumerate(self._texts) if place not in gone]
        self._metadata = [fields for place, fields in enumerate(self._metadata) if place not in gone]

    def set_texts(self, places: NDArray[np.int64], texts: list[str | None]) -> None:
        for place, text in zip(places.tolist(), texts):
            self._texts[place] = text

    def set_metadata(self, places: NDArray[np.int64], metadata: list[Metadata | None]) -> None:
        for place, fields in zip(places.tolist(), metadata):
            self._metadata[place] = fields

    def document(self, one: int | str, place: int) -> StoredDocument:
        return StoredDocument(one, self._texts[place], _copied(self._metadata[place] or {}))

    def metadata(self) -> Iterable[Metadata]:
        """The metadata of every row; not copies."""
        return (fields or {} for fields in self._metadata)

    @property
    def is_nothing(self) -> bool:
        """Whether no row has a text or metadata."""
        return Beside(self._texts, self._metadata).is_nothing

    @property
    def counts(self) -> tuple[int, int]:
        """How many rows have a text, and how many have metadata."""
        return sum(text is not None for text in self._texts), sum(bool(fields) for fields in self._metadata)

    # ---- in a file: one JSON object per line, one line per row ----

    def lines(self) -> str:
        return "".join(
            json_line({"text": text, "metadata": fields}) + "\n" for text, fields in zip(self._texts, self._metadata)
        )

    @classmethod
    def read(cls, path: Path) -> Documents:
        """The documents in a file of `lines`.

        Raises:
            TypeError, ValueError: not such a file.
        """
        lines = [(where, json_object(line, where)) for where, line in lines_of_file(path)]
        texts, metadata = ([field(fields, key, where) for where, fields in lines] for key in ("text", "metadata"))
        for kind, values, check in (("texts", texts, _text), ("metadata", metadata, _fields)):
            for row, value in enumerate(values):
                if value is not None:
                    check(f"{kind} of row {row}", value)
        return cls(Beside(texts, metadata))


def _texts(texts: Any, rows: int) -> list[str | None]:
    _require_one_a_row("texts", "strings", texts, rows)
    return [_text(f"texts of row {row}", text) for row, text in enumerate(texts)]


def _metadata(metadata: Any, rows: int) -> list[Metadata | None]:
    _require_one_a_row("metadata", "mappings", metadata, rows)
    return [_fields(f"metadata of row {row}", fields) for row, fields in enumerate(metadata)]


def _require_one_a_row(name: str, kind: str, values: Any, rows: int) -> None:
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Sequence):
        raise TypeError(f"{name} must be a sequence of {kind}, got {validate.kind(values)}")
    if len(values) != rows:
        raise ValueError(f"{name} must be as many as the {rows} vectors, got {len(values)}")


def _text(name: str, text: Any) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a str, got {validate.kind(text)}")
    return require_utf8(text, name)


def _fields(name: str, fields: Any) -> Metadata:
    if not isinstance(fields, Mapping):
        raise TypeError(f"{name} must be a mapping, got {validate.kind(fields)}")
    for key, value in fields.items():
        if not isinstance(key, str):
            raise TypeError(f"{name} must have strings as keys, got {validate.kind(key)}")
        if key.startswith("$"):
            raise ValueError(f"{name} must have keys that do not begin with '$', as operators of filters do, got {key!r}")
        for one in value if isinstance(value, list) else [value]:
            if one is not None and not isinstance(one, (str, int, float)):
                raise TypeError(
                    f"{name} must have values of JSON (str, int, float, bool, None, lists of these), "
                    f"got {validate.kind(one)} in {key!r}"
                )
    try:
        json_line(dict(fields))
    except ValueError as mistake:
        raise ValueError(f"{name} must be JSON: {mistake}") from None
    return _copied(fields)


def _copied(fields: Mapping[str, Any]) -> Metadata:
    return {key: list(value) if isinstance(value, list) else value for key, value in fields.items()}
