"""The messages of a private question, and a memo of the questions asked before."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._native import rowwise
from hushvec._native.products import inner_products
from hushvec._util import validate
from hushvec._util.publish import append_bytes, is_first_to_write, published_bytes
from hushvec.extend import RowReceipt
from hushvec.receipts import row_receipt

_FORMAT = 1

Rows = NDArray[np.float32]
# A server of documents: (row [d], count) -> (ids [w], vectors [w, d]) of the nearest documents, w at most count.
Holder = Callable[[Rows, int], Any]
_MEMO_FORMAT = 2


class Question(NamedTuple):
    """Everything that the client sends: a released row, and how many documents to return.

    Args:
        row: float32 [d], of unit length: a row of the public table of a codebook, or a PrivUnit direction. `from_json` does not check
            the length: it is the client's.
        fetch: how many documents the server is to send.
    """

    row: Rows
    fetch: int

    def to_json(self) -> str:
        """JSON to send to the server."""
        return json.dumps({"hushvec_question": _FORMAT, "fetch": self.fetch, "row": [float(value) for value in self.row]})

    @classmethod
    def from_json(cls, text: str | bytes) -> Question:
        """A question that `to_json` wrote; ValueError for anything else."""
        fields = _fields(text, "hushvec_question", ("fetch", "row"))
        return cls(_row(fields["row"]), validate.whole_number("fetch", fields["fetch"], at_least=1))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Question) and self.fetch == other.fetch and np.array_equal(self.row, other.row)

    def __hash__(self) -> int:
        return hash((self.fetch, self.row.tobytes()))


class Candidates(NamedTuple):
    """The server's reply: documents near the released row.

    Args:
        ids: [w], whole numbers or strings, in the server's order.
        vectors: float32 [w, d], their rows.
    """

    ids: NDArray[Any]
    vectors: Rows

    def to_json(self) -> str:
        """JSON to send back to the client."""
        return json.dumps({"hushvec_candidates": _FORMAT, "ids": self.ids.tolist(), "vectors": self.vectors.tolist()})

    @classmethod
    def from_json(cls, text: str | bytes) -> Candidates:
        """Candidates that `to_json` wrote; TypeError for ids of another kind, ValueError for anything else."""
        fields = _fields(text, "hushvec_candidates", ("ids", "vectors"))
        return candidates(fields["ids"], fields["vectors"])


class Answer(NamedTuple):
    """The answer, ranked by the client. Scores and the order of ids reveal the question: keep them private."""

    ids: NDArray[Any]  # [k], best first, ranked with the clean query
    scores: Rows  # float32 [k], cosines with the clean query
    released: Question  # all that was sent
    receipt: RowReceipt  # of its release


def candidates(ids: Any, vectors: Any) -> Candidates:
    """Checked candidates: one id per row, finite rows. TypeError for ids of another kind, ValueError for the rest."""
    try:
        rows = np.ascontiguousarray(vectors, np.float32)
    except (TypeError, ValueError):
        raise ValueError("vectors must be rows of numbers, all of one length") from None
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise ValueError(f"vectors must have shape [documents, dimension], got {rows.shape}")
    if not np.isfinite(rows).all():
        raise ValueError("vectors must be finite, got NaN or Inf")
    given = list(ids)
    whole = all(isinstance(one, int | np.integer) and not isinstance(one, bool) for one in given)
    if not whole and not all(isinstance(one, str) for one in given):
        raise TypeError("ids must be whole numbers or strings")
    if len(set(given)) < len(given):
        raise ValueError("ids must all be different")
    if len(given) != len(rows):
        raise ValueError(f"ids must be {len(rows)}, one for each row of vectors, got {len(given)}")
    return Candidates(np.array(given, np.int64 if whole else object), rows)


def ranked(query: Rows, found: Candidates) -> tuple[NDArray[Any], Rows]:
    """The ids of candidates, best first, and their cosines with a clean query [d]."""
    scores = inner_products(unit(query[None]), unit(found.vectors))[0]
    order = np.argsort(-scores, kind="stable")
    return found.ids[order], scores[order]


def unit(rows: Rows) -> Rows:
    return rowwise.unit_rows(rows, np.empty_like(rows))


def _row(values: Any) -> Rows:
    try:
        row = np.asarray(values, np.float32)
    except (TypeError, ValueError):
        raise ValueError("row must be a list of numbers") from None
    if row.ndim != 1 or not len(row) or not np.isfinite(row).all():
        raise ValueError(f"row must be finite numbers in one dimension, got shape {row.shape}")
    return row


def _fields(text: str | bytes, kind: str, names: tuple[str, ...]) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict) or set(fields) != {kind, *names}:
        raise ValueError(f"text must be the JSON of a {kind.removeprefix('hushvec_')} of hushvec, with the fields {', '.join(names)}")
    if fields[kind] != _FORMAT:
        raise ValueError(f"{kind} must be version {_FORMAT}, got {fields[kind]!r}")
    return fields


@dataclass(frozen=True)
class Asked:
    """A question that has been released."""

    question: Question  # what left
    receipt: RowReceipt  # of its release
    ids: NDArray[Any] | None = None  # of all candidates, ranked locally; None while there is no answer
    scores: NDArray[np.float32] | None = None


class AskedQuestions:
    """A memo keyed by a digest of the clean question; in memory, and with a path also in a file that only its owner can read.

    `client` is a digest of what answers depend on. A process that is killed while it writes leaves an unfinished last line. It is
    dropped with a warning: its question did not leave, because a question leaves only after its line is on the disk.
    """

    def __init__(self, path: str | os.PathLike[str] | None, client: str) -> None:
        self._path = None if path is None else Path(path)
        self._client = client
        self._asked: dict[str, Asked] = {}
        self._unsaved: dict[str, Asked] = {}
        self.lock = threading.RLock()
        if self._path is not None and self._path.exists():
            self._asked, is_cut = _contents(self._path, client)
            if is_cut:
                self._write_anew(self._path)

    def __len__(self) -> int:
        return len(self._asked)

    def get(self, query: NDArray[np.float32]) -> Asked | None:
        return self._asked.get(_name(query))

    def keep(self, query: NDArray[np.float32], asked: Asked) -> None:
        """In memory first: a release must be remembered even if the disk is full. The next call then writes it."""
        name = _name(query)
        self._asked[name] = asked
        if self._path is None:
            return
        self._unsaved[name] = asked
        if self._path.is_symlink():  # a link is replaced, and nothing is written behind it
            self._write_anew(self._path)
        elif self._path.exists() or not self._is_first_to_write(self._path):
            append_bytes(self._path, _lines(*itertools.starmap(_stored, self._unsaved.items())))
        self._unsaved.clear()

    def _is_first_to_write(self, path: Path) -> bool:
        is_first = is_first_to_write(path, self._whole())
        if not is_first:
            _contents(path, self._client)
        return is_first

    def _write_anew(self, path: Path) -> None:
        with published_bytes(path) as file:
            file.write(self._whole())

    def _whole(self) -> bytes:
        header = {"hushvec_questions": _MEMO_FORMAT, "asker": self._client}
        return _lines(header, *itertools.starmap(_stored, self._asked.items()))


def _name(query: NDArray[np.float32]) -> str:
    return hashlib.sha256(np.ascontiguousarray(query, "<f4").tobytes()).hexdigest()


def _lines(*objects: Mapping[str, Any]) -> bytes:
    return b"".join(json.dumps(fields).encode() + b"\n" for fields in objects)


def _stored(name: str, asked: Asked) -> dict[str, Any]:
    answer = {key: None if values is None else values.tolist() for key, values in (("ids", asked.ids), ("scores", asked.scores))}
    return {"name": name, "question": asked.question.to_json(), "receipt": asked.receipt.to_json(), **answer}


def _contents(path: Path, client: str) -> tuple[dict[str, Asked], bool]:
    """The questions by name, and whether an unfinished line follows them."""
    fault = ValueError(f"memo must be a file of asked questions, version {_MEMO_FORMAT}; {path} is damaged or of another kind")
    *whole, rest = path.read_bytes().split(b"\n")
    try:
        header, *entries = map(json.loads, whole)
        if header["hushvec_questions"] != _MEMO_FORMAT:
            raise fault
        theirs = str(header["asker"])
        asked = {str(one["name"]): _asked_of(one) for one in entries}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise fault from None
    if theirs != client:
        raise ValueError(f"memo must be of this codebook, epsilon and fetch: {path} is of others")
    if rest:
        warnings.warn(f"{path} ends with an unfinished line, which is dropped: its question will be released anew", stacklevel=4)
    return asked, bool(rest)


def _asked_of(fields: Mapping[str, Any]) -> Asked:
    question, receipt = Question.from_json(fields["question"]), row_receipt(json.loads(fields["receipt"]))
    if fields["ids"] is None:
        return Asked(question, receipt)
    ids = fields["ids"]
    kind = object if ids and isinstance(ids[0], str) else np.int64
    return Asked(question, receipt, np.array(ids, kind), np.array(fields["scores"], np.float32))
