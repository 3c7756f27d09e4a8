"""Rows as lists, for hosts whose embeddings are lists: each list knows the release that it came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from hushvec.middleware import Embeddings
from hushvec.receipts.labels import RowReceipt

Item = TypeVar("Item")


class ReleasedList(list[Item]):
    """A list of rows, or one row as a list of numbers, with the receipts of its release. What is cut from it is a plain list.

    Args:
        items: rows, or the numbers of one.
        source: the embeddings that they are from. None, as for a host that rebuilds lists as `type(rows)(rows)`: no receipts.
    """

    receipts: tuple[RowReceipt, ...]
    usage: Mapping[str, Any]
    metadata: Mapping[str, Any]

    def __init__(self, items: Iterable[Item] = (), source: Embeddings | None = None) -> None:
        super().__init__(items)
        self.receipts = () if source is None else source.receipts
        self.usage = {} if source is None else dict(source.usage)
        self.metadata = {} if source is None else dict(source.metadata)

    @property
    def receipt(self) -> RowReceipt | None:
        """The receipt of the last private release, None if the values went through none."""
        return self.receipts[-1] if self.receipts else None


def rows_as_lists(embeddings: Embeddings) -> ReleasedList[ReleasedList[float]]:
    """All rows [n, d], as Python floats."""
    return ReleasedList((ReleasedList(row, embeddings) for row in embeddings.values.tolist()), embeddings)


def rows_as_arrays(embeddings: Embeddings) -> ReleasedList[Any]:
    """All rows [n, d], as numpy arrays [d] in the embeddings' own memory."""
    return ReleasedList(list(embeddings.values), embeddings)
