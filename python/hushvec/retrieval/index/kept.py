"""Releases that were charged before a store failed, reused when the call is repeated."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any, Generic, TypeVar

import numpy as np

from hushvec._native import arrays
from hushvec.retrieval.index.prepared import as_rows

Kept = TypeVar("Kept")


class KeptReleases(Generic[Kept]):
    """Keyed by the rows and other arguments of the call. In memory only: a digest on disk would let readers verify guesses.

    Args:
        most: how many are kept; the oldest goes first. None keeps all.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._kept: OrderedDict[bytes, Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, x: Any, *named: Any) -> Kept | None:
        return self._kept.get(_digest(x, named)) if self._kept else None

    def keep(self, release: Kept, x: Any, *named: Any) -> None:
        self._kept[_digest(x, named)] = release
        if self._most is not None and len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def drop(self, x: Any, *named: Any) -> None:
        if self._kept:
            self._kept.pop(_digest(x, named), None)


def _digest(x: Any, named: tuple[Any, ...]) -> bytes:
    words = [one.tolist() if isinstance(one, np.ndarray) else one for one in named]
    asked = hashlib.sha256(repr((str(x.dtype), tuple(x.shape), words)).encode("utf-8", "backslashreplace"))
    asked.update(_content(x))
    return asked.digest()


def _content(x: Any) -> memoryview:
    """A key from all bits of the rows: rows that only float32 rounding makes equal are different requests."""
    if arrays.dtype_name(x) != "float64":
        return as_rows(x).data
    host = x.detach().cpu().numpy() if arrays.is_torch(x) else x.get() if arrays.is_cupy(x) else x
    return np.ascontiguousarray(host).data
