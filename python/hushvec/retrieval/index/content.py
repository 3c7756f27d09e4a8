"""The content of an index: rows in a store, and beside them ids, texts, metadata and receipts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._util import lines, validate
from hushvec._util.lines import json_line, json_object, lines_of_file, require_utf8
from hushvec.errors import StoreError
from hushvec.extend import RowReceipt
from hushvec.retrieval.index.filters import matcher
from hushvec.retrieval.index.settings import IndexSettings
from hushvec.retrieval.stores import Store

_LARGEST = 2**63 - 1
NOTE_BESIDE = "texts or metadata are stored beside the rows as they are: this receipt says nothing about them"
Metadata = dict[str, Any]


class RowIds:
    """The id of every row. Integers (int64) or strings, never both: the first ids decide."""

    def __init__(self, values: NDArray[Any] | None = None, next_default: int = 0) -> None:
        self.values: NDArray[Any] = np.empty(0, np.int64) if values is None else values
        self.next_default = next_default
        self._sorted: tuple[NDArray[Any], NDArray[np.int64]] | None = None

    @classmethod
    def restored(cls, ids: Any, next_default: Any) -> RowIds:
        """Ids read from a file, which may hold anything: ids that no index has are refused, and defaults that would come twice."""
        values = _as_ids(ids) if ids else np.empty(0, np.int64)
        _require_unique(values)
        taken = int(values.max()) if values.dtype == np.int64 and len(values) else -1
        least = max(0, min(taken, _LARGEST - 1) + 1)
        if not least <= validate.whole_number("next_default", next_default, at_least=0) <= _LARGEST:
            raise ValueError(f"next_default must be in [{least}, {_LARGEST}] for these ids, got {next_default}")
        return cls(values, next_default)

    def __len__(self) -> int:
        return len(self.values)

    def checked(self, ids: Any, rows: int, *, replace: bool = False) -> NDArray[Any]:
        """The ids of new rows: the given ones, or the next whole numbers. None may be there, unless rows may be replaced."""
        if ids is None:
            if len(self) and self.values.dtype != np.int64:
                raise TypeError("ids must be given: those in the index are strings")
            if self.next_default > _LARGEST - rows:
                raise ValueError(f"ids must be given: those after {self.next_default} do not fit into 64 bits")
            return np.arange(self.next_default, self.next_default + rows, dtype=np.int64)
        new = _as_ids(ids)
        if len(new) != rows:
            raise ValueError(f"ids must be as many as the {rows} vectors, got {len(new)}")
        _require_unique(new)
        for one in new.tolist() if new.dtype == object else ():
            try:  # `save` must be able to write the text: a lone surrogate is refused before the rows are charged
                one.encode()
            except UnicodeEncodeError:
                raise ValueError(f"ids must be Unicode text, got {_shown(one)}") from None
        self._require_same_kind(new)
        _, there = self._look_up(new)
        if there.any() and not replace:
            raise ValueError(f"ids must be new, got {_shown(new[there][0])}, which the index has")
        return new

    def append(self, new: NDArray[Any]) -> None:
        """Rows at the end; `new` comes from `checked`."""
        self.values = np.concatenate([self.values, new]) if len(self) else new.copy()
        if new.dtype == np.int64 and len(new):
            self.next_default = max(self.next_default, min(int(new.max()), _LARGEST - 1) + 1)
        self._sorted = None

    def found(self, ids: Any, *, once: bool = False) -> NDArray[np.int64]:
        """The rows of given ids that are there, in their order."""
        wanted = _as_ids(ids)
        if once:
            _require_unique(wanted)
        if len(wanted):
            self._require_same_kind(wanted)
        found, there = self._look_up(wanted)
        if not there.all():
            raise ValueError(f"ids must be in the index, got {_shown(wanted[~there][0])}")
        return found

    def known(self, ids: Any) -> NDArray[np.bool_]:
        """Whether each of the given ids is there; none is if they are of the other kind."""
        wanted = _as_ids(ids)
        if len(self) and len(wanted) and wanted.dtype != self.values.dtype:
            return np.zeros(len(wanted), np.bool_)
        return self._look_up(wanted)[1]

    def remove(self, places: NDArray[np.int64]) -> None:
        self.values = np.delete(self.values, places)
        self._sorted = None

    def _require_same_kind(self, ids: NDArray[Any]) -> None:
        if len(self) and ids.dtype != self.values.dtype:
            ours, theirs = ("integers" if values.dtype == np.int64 else "strings" for values in (self.values, ids))
            raise TypeError(f"ids must be {ours} as those in the index, got {theirs}")

    def _look_up(self, wanted: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        if not len(self) or not len(wanted):
            return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_)
        if self._sorted is None:
            order = np.argsort(self.values, kind="stable")
            self._sorted = self.values[order], order
        ascending, order = self._sorted
        at = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
        return order[at], np.asarray(ascending[at] == wanted, np.bool_)


def _as_ids(ids: Any) -> NDArray[Any]:
    validate.instance("ids", ids, Iterable, "a sequence of integers or of strings", but=(str, bytes))
    if isinstance(ids, np.ndarray) and ids.ndim != 1:
        raise ValueError(f"ids must have one dimension, got {ids.ndim}")
    if isinstance(ids, np.ndarray) and ids.dtype.kind in "iu":
        if ids.dtype == np.uint64 and len(ids) and int(ids.max()) > _LARGEST:
            raise ValueError(f"ids must fit into 64 bits with a sign, got {int(ids.max())}")
        return ids.astype(np.int64)
    listed = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    if all(isinstance(one, str) for one in listed):
        values = np.empty(len(listed), object)
        values[:] = listed
        return values
    for one in listed:
        if isinstance(one, (bool, np.bool_)) or not isinstance(one, (int, np.integer)):
            raise TypeError(f"ids must be all integers or all strings, got {validate.kind(one)} among them")
        if not -_LARGEST - 1 <= one <= _LARGEST:
            raise ValueError(f"ids must fit into 64 bits with a sign, got {one}")
    return np.array(listed, np.int64)


def _require_unique(ids: NDArray[Any]) -> None:
    ascending = np.sort(ids)
    same = np.flatnonzero(ascending[1:] == ascending[:-1])
    if len(same):
        raise ValueError(f"ids must be unique, got {_shown(ascending[same[0]])} twice")


def _shown(one: Any) -> str:
    return f"{one!r:.80}" if isinstance(one, str) else str(int(one))


class StoredDocument(NamedTuple):
    """The id, text and metadata of a row, as they were added: None without a text, an empty copy without metadata."""

    id: int | str
    text: str | None
    metadata: Metadata


class Documents:
    """Texts and metadata in the order of the rows; None where a row has none."""

    def __init__(self, texts: Iterable[str | None] = (), metadata: Iterable[Metadata | None] = ()) -> None:
        self.texts, self._metadata = list(texts), list(metadata)

    @classmethod
    def checked(cls, texts: Any, metadata: Any, rows: int) -> Documents:
        """Checked texts and metadata for so many rows; None means that no row has any."""
        listed: list[list[Any]] = []
        for name, kind, values, check in (("texts", "strings", texts, _text), ("metadata", "mappings", metadata, _fields)):
            if values is None:
                listed.append([None] * rows)
                continue
            validate.instance(name, values, Sequence, f"a sequence of {kind}", but=(str, bytes, Mapping))
            if len(values) != rows:
                raise ValueError(f"{name} must be as many as the {rows} vectors, got {len(values)}")
            listed.append([check(f"{name} of row {row}", value) for row, value in enumerate(values)])
        return cls(*listed)

    def __len__(self) -> int:
        return len(self.texts)

    def append(self, new: Documents) -> None:
        self.texts += new.texts
        self._metadata += new._metadata

    def remove(self, places: NDArray[np.int64]) -> None:
        gone = set(places.tolist())
        self.texts = [text for place, text in enumerate(self.texts) if place not in gone]
        self._metadata = [fields for place, fields in enumerate(self._metadata) if place not in gone]

    def update(self, places: NDArray[np.int64], metadata: Any, texts: Any) -> None:
        """Replace what is given; None leaves what is there."""
        new = Documents.checked(texts, metadata, len(places))
        for row, place in enumerate(places.tolist()):
            if texts is not None:
                self.texts[place] = new.texts[row]
            if metadata is not None:
                self._metadata[place] = new._metadata[row]

    def document(self, one: int | str, place: int) -> StoredDocument:
        return StoredDocument(one, self.texts[place], _copied(self._metadata[place] or {}))

    def metadata(self) -> Iterable[Metadata]:
        """The metadata of every row; not copies."""
        return (fields or {} for fields in self._metadata)

    @property
    def counts(self) -> tuple[int, int]:
        """How many rows have a text, and how many have metadata."""
        return sum(text is not None for text in self.texts), sum(bool(fields) for fields in self._metadata)

    # ---- in a file: one JSON object per line, one line per row ----

    def lines(self) -> str:
        pairs = zip(self.texts, self._metadata)
        return "".join(json_line({"text": text, "metadata": fields}) + "\n" for text, fields in pairs)

    @classmethod
    def read(cls, path: Path) -> Documents:
        """The documents in a file of `lines`."""
        rows = [(where, json_object(line, where)) for where, line in lines_of_file(path)]
        texts, metadata = ([lines.field(fields, key, where) for where, fields in rows] for key in ("text", "metadata"))
        for kind, values, check in (("texts", texts, _text), ("metadata", metadata, _fields)):
            for row, value in enumerate(values):
                if value is not None:
                    check(f"{kind} of row {row}", value)
        return cls(texts, metadata)


def _text(name: str, text: Any) -> str:
    validate.instance(name, text, str, "a str")
    return require_utf8(text, name)


def _fields(name: str, fields: Any) -> Metadata:
    validate.instance(name, fields, Mapping, "a mapping")
    for key, value in fields.items():
        if not isinstance(key, str):
            raise TypeError(f"{name} must have strings as keys, got {validate.kind(key)}")
        if key.startswith("$"):
            raise ValueError(f"{name} must have keys that do not begin with '$', as operators of filters do, got {key!r}")
        for one in value if isinstance(value, list) else [value]:
            if one is not None and not isinstance(one, (str, int, float)):
                accepted = "values of JSON (str, int, float, bool, None, lists of these)"
                raise TypeError(f"{name} must have {accepted}, got {validate.kind(one)} in {key!r}")
    try:
        json_line(dict(fields))
    except ValueError as mistake:
        raise ValueError(f"{name} must be JSON: {mistake}") from None
    return _copied(fields)


def _copied(fields: Mapping[str, Any]) -> Metadata:
    return {key: list(value) if isinstance(value, list) else value for key, value in fields.items()}


@dataclass
class Content:
    """All state of an index except its generator."""

    settings: IndexSettings
    store: Store
    ids: RowIds = field(default_factory=RowIds)
    receipts: list[RowReceipt] = field(default_factory=list)
    documents: Documents = field(default_factory=Documents)

    def __len__(self) -> int:
        return len(self.ids)

    def matching(self, where: Mapping[str, Any]) -> NDArray[np.int64]:
        """Places of the rows whose metadata a filter matches, ascending."""
        matches = matcher(where)
        return np.flatnonzero(np.fromiter(map(matches, self.documents.metadata()), np.bool_, len(self)))

    def candidates(self, where: Mapping[str, Any] | None, among: Any) -> NDArray[np.int64] | None:
        """Places of the rows to be searched, ascending; None for all of them."""
        if where is None and among is None:
            return None
        places = np.arange(len(self)) if among is None else np.unique(self.ids.found(among))
        return places if where is None else np.intersect1d(places, self.matching(where), assume_unique=True)


def store_error(outcome: str, error: Exception, receipt: RowReceipt | None) -> StoreError:
    """An error with the store's message, and what to do about it."""
    kept = "" if receipt is None else "; the charge stands and its release is kept: the same call again costs nothing"
    return StoreError(f"{str(error) or type(error).__name__}; {outcome}{kept}")
