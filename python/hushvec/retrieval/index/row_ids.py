"""The ids of an index: unique integers or unique strings, in the order of its rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate

_LARGEST = 2**63 - 1


class RowIds:
    """The id of every row. Integers (int64) or strings, never both: the first ids decide."""

    def __init__(self, values: NDArray[Any] | None = None, next_default: int = 0) -> None:
        self.values: NDArray[Any] = np.empty(0, np.int64) if values is None else values
        self.next_default = next_default
        self._sorted: tuple[NDArray[Any], NDArray[np.int64]] | None = None

    @classmethod
    def restored(cls, ids: Any, next_default: Any) -> RowIds:
        """Ids read from a file, which may hold anything.

        Raises:
            TypeError, ValueError: ids that no index has, or default ids that would wrap around or come twice.
        """
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
        """The ids of new rows: the given ones, or the next whole numbers.

        Raises:
            TypeError: neither integers nor strings, or of another kind than those that are there.
            ValueError: not as many as rows, an id twice, one that the index has (unless rows may be replaced), or one that no file
                can hold.
        """
        if ids is None:
            return self._default(rows)
        new = _as_ids(ids)
        if len(new) != rows:
            raise ValueError(f"ids must be as many as the {rows} vectors, got {len(new)}")
        _require_unique(new)
        _require_unicode(new)
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

    def places(self, ids: Any) -> NDArray[np.int64]:
        """The rows of given ids, ascending.

        Raises:
            ValueError: an id that is not there, or twice.
        """
        return np.sort(self.found(ids, once=True))

    def found(self, ids: Any, *, once: bool = False) -> NDArray[np.int64]:
        """The rows of given ids, in their order.

        Raises:
            ValueError: an id that is not there, or twice if each must come once.
        """
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
        """Which of the given ids are there; none if they are of the other kind."""
        wanted = _as_ids(ids)
        if len(self) and len(wanted) and wanted.dtype != self.values.dtype:
            return np.zeros(len(wanted), np.bool_)
        return self._look_up(wanted)[1]

    def remove(self, places: NDArray[np.int64]) -> None:
        self.values = np.delete(self.values, places)
        self._sorted = None

    def _default(self, rows: int) -> NDArray[Any]:
        if len(self) and self.values.dtype != np.int64:
            raise TypeError("ids must be given: those in the index are strings")
        if self.next_default > _LARGEST - rows:
            raise ValueError(f"ids must be given: those after {self.next_default} do not fit into 64 bits")
        return np.arange(self.next_default, self.next_default + rows, dtype=np.int64)

    def _require_same_kind(self, ids: NDArray[Any]) -> None:
        if len(self) and ids.dtype != self.values.dtype:
            raise TypeError(f"ids must be {_kind(self.values)} as those in the index, got {_kind(ids)}")

    def _look_up(self, wanted: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The row of each id, and whether it is there."""
        if not len(self) or not len(wanted):
            return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_)
        if self._sorted is None:
            order = np.argsort(self.values, kind="stable")
            self._sorted = self.values[order], order
        ascending, order = self._sorted
        at = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
        return order[at], np.asarray(ascending[at] == wanted, np.bool_)


def _as_ids(ids: Any) -> NDArray[Any]:
    """int64, or an object array of str."""
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        raise TypeError(f"ids must be a sequence of integers or of strings, got {validate.kind(ids)}")
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
    return np.array([_whole(one) for one in listed], np.int64)


def _require_unicode(ids: NDArray[Any]) -> None:
    """Check that `save` can write the text: a lone surrogate must be refused before the rows are charged."""
    for one in ids.tolist() if ids.dtype == object else ():
        try:
            one.encode()
        except UnicodeEncodeError:
            raise ValueError(f"ids must be Unicode text, got {_shown(one)}") from None


def _whole(one: Any) -> int:
    if isinstance(one, (bool, np.bool_)) or not isinstance(one, (int, np.integer)):
        raise TypeError(f"ids must be all integers or all strings, got {validate.kind(one)} among them")
    if not -_LARGEST - 1 <= one <= _LARGEST:
        raise ValueError(f"ids must fit into 64 bits with a sign, got {one}")
    return int(one)


def _require_unique(ids: NDArray[Any]) -> None:
    ascending = np.sort(ids)
    same = np.flatnonzero(ascending[1:] == ascending[:-1])
    if len(same):
        raise ValueError(f"ids must be unique, got {_shown(ascending[same[0]])} twice")


def _shown(one: Any) -> str:
    return f"{one!r:.80}" if isinstance(one, str) else str(int(one))


def _kind(ids: NDArray[Any]) -> str:
    return "integers" if ids.dtype == np.int64 else "strings"
