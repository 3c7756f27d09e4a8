"""The messages of a private question: what the asker sends, what the holder sends back, and the ranked answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._native.products import inner_products
from hushvec._native.rowwise import unit_rows
from hushvec._util import validate
from hushvec.receipts.labels import RowReceipt

_FORMAT = 1

Rows = NDArray[np.float32]


class Question(NamedTuple):
    """Everything that the asker sends: a released row, and how many documents to return.

    Args:
        row: float32 [d], of unit length: a row of the public table of a codebook, or a PrivUnit direction. `from_json` does not check
            the length: it is the asker's.
        fetch: how many documents the holder is to send.
    """

    row: Rows
    fetch: int

    def to_json(self) -> str:
        """JSON to send to the holder."""
        return json.dumps({"hushvec_question": _FORMAT, "fetch": self.fetch, "row": [float(value) for value in self.row]})

    @classmethod
    def from_json(cls, text: str | bytes) -> Question:
        """What `to_json` wrote.

        Raises:
            ValueError: it is no question, of another version, or has a value out of its range.
        """
        fields = _fields(text, "hushvec_question", ("fetch", "row"))
        return cls(_row(fields["row"]), validate.whole_number("fetch", fields["fetch"], at_least=1))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Question) and self.fetch == other.fetch and np.array_equal(self.row, other.row)

    def __hash__(self) -> int:
        return hash((self.fetch, self.row.tobytes()))


class Candidates(NamedTuple):
    """What the holder sends back: documents near the released row.

    Args:
        ids: [w], whole numbers or strings, in the holder's order.
        vectors: float32 [w, d], their rows.
    """

    ids: NDArray[Any]
    vectors: Rows

    def to_json(self) -> str:
        """JSON to send back to the asker."""
        return json.dumps({"hushvec_candidates": _FORMAT, "ids": self.ids.tolist(), "vectors": self.vectors.tolist()})

    @classmethod
    def from_json(cls, text: str | bytes) -> Candidates:
        """What `to_json` wrote.

        Raises:
            TypeError: ids that are neither whole numbers nor strings.
            ValueError: they are no candidates, of another version, or ids and rows do not fit together.
        """
        fields = _fields(text, "hushvec_candidates", ("ids", "vectors"))
        return candidates(fields["ids"], fields["vectors"])


def ranked(row: Rows, found: Candidates) -> tuple[NDArray[Any], NDArray[Any]]:
    """Ids and scores of candidates, by cosine with a row [d], the best first."""
    both = [unit_rows(rows, np.empty_like(rows)) for rows in (row[None], found.vectors)]
    scores = inner_products(*both)[0]
    order = np.argsort(-scores, kind="stable")
    return found.ids[order], scores[order]


class Answer(NamedTuple):
    """The answer, ranked by the asker.

    Args:
        ids: [k], best first, ranked with the clean query.
        scores: float32 [k], cosines with the clean query. They reveal the question: keep them private, like the order of `ids`.
        released: all that was sent.
        receipt: of its release.
    """

    ids: NDArray[Any]
    scores: Rows
    released: Question
    receipt: RowReceipt


Holder = Callable[[Rows, int], Any]
"""A holder of documents: (row [d], count) -> (ids [w], vectors [w, d]) of the nearest documents, w at most count."""


def candidates(ids: Any, vectors: Any) -> Candidates:
    """Checked candidates: one id per row, finite rows.

    Raises:
        TypeError: ids that are neither whole numbers nor strings.
        ValueError: no documents, shapes that do not fit together, an id twice, NaN or Inf.
    """
    try:
        rows = np.ascontiguousarray(vectors, np.float32)
    except (TypeError, ValueError):
        raise ValueError("vectors must be rows of numbers, all of one length") from None
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise ValueError(f"vectors must have shape [documents, dimension], got {rows.shape}")
    if not np.isfinite(rows).all():
        raise ValueError("vectors must be finite, got NaN or Inf")
    names = _ids(ids)
    if len(names) != len(rows):
        raise ValueError(f"ids must be {len(rows)}, one for each row of vectors, got {len(names)}")
    return Candidates(names, rows)


def _ids(ids: Any) -> NDArray[Any]:
    given = list(ids)
    whole = all(isinstance(one, int | np.integer) and not isinstance(one, bool) for one in given)
    if not whole and not all(isinstance(one, str) for one in given):
        raise TypeError("ids must be whole numbers or strings")
    if len(set(given)) < len(given):
        raise ValueError("ids must all be different")
    return np.array(given, np.int64 if whole else object)


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
