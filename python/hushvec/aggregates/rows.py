"""The rows of many people, here or in parts that an engine holds: checked, bounded by person, and added up to integers."""

from __future__ import annotations

import copy
import hashlib
import io
import json
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._native.arrays import as_matrix
from hushvec._native.rowwise import given_rows, unit_rows
from hushvec._util.display import plural
from hushvec.aggregates.spending import Noise, People, Spending, Terms, group_codes
from hushvec.aggregates.totals import GroupTotals, blocks, chosen, on_host, rows_of_moments

_Values = NDArray[np.float64]
_Codes = NDArray[np.uint32]
Step = Callable[[Any, Any], NDArray[np.int64]]  # integers of a block of rows and of their codes; added up over all blocks
Block = tuple[Any, Any, Any]  # rows, and groups and people or None

TOGETHER = "groups and labels must be given together: which group each row is of, and the public list of groups"
_KEPT_ELEMENTS = 1 << 29  # of rows that are changed once, not in every pass: 2 GiB


@dataclass(frozen=True, eq=False)
class RowsInParts:
    """Rows that an engine holds, which an aggregate reads where they are: give it in place of rows, groups and people.

    `hushvec.integrations` makes it, of a Dask array, a Ray data set or a Spark data frame. The integers that workers return are
    added here, so that releases are those of one process, bit by bit. All rows of a person must be in one part. A classifier and
    principal components read the rows several times: keep (persist, materialize, cache) what would come in other parts then.

    What a worker finds wrong with rows comes from here in the engine's errors, before anything is charged.

    Args:
        run: calls a picklable function with the blocks (rows, groups or None, people or None) of each part; returns all results.
        dimension: d, columns of every block.
        with_groups, with_people: whether blocks have them.
    """

    run: Callable[[Callable[[Iterable[Block]], bytes]], Iterable[bytes]]
    dimension: int
    with_groups: bool = False
    with_people: bool = False


class PrivateRows:
    """Rows and whose they are, checked, with what may be spent on them; and what is added up over them."""

    def __init__(self, rows: Any, terms: Terms, purpose: str, groups: Any = None, labels: Any = None) -> None:
        self._parts = rows if isinstance(rows, RowsInParts) else None
        if self._parts is not None:
            if groups is not None or terms.people is not None:
                raise TypeError("groups and people must be left out with RowsInParts, which have their own")
            terms = terms._replace(people=() if self._parts.with_people else None)
        self.names: tuple[Hashable, ...] | None = None if labels is None else group_codes((), labels, 0)[1]
        self.spending = Spending(terms, purpose if self.names is None else f"{purpose} of {plural(len(self.names), 'label')}")
        self.kept: NDArray[np.bool_] | None = None
        self._codes: _Codes | None = None
        self._change: Callable[[Any], Any] | None = None
        self._changed: list[tuple[Any, Any]] | None = None
        self._mean: Noise | None = None
        self._seen: list[tuple[int, str]] | None = None  # rows of each part, and whose
        if self._parts is None:
            self._take(as_matrix(given_rows("rows", rows, finite=True).values), groups, terms.people)
        else:
            if labels is not None and not self._parts.with_groups:
                raise ValueError(TOGETHER)
            self.dimension = self._parts.dimension
        if self.dimension < 1:
            raise ValueError("rows must have at least 1 column, got 0")

    def _take(self, rows: Any, groups: Any, people: Any) -> None:
        self.dimension = int(rows.shape[1])
        if groups is None and self.names is not None:
            raise ValueError(TOGETHER)
        self._codes = None if groups is None else group_codes(groups, self.names, len(rows))[0]
        if people is not None:
            self.kept = People(self.spending.rows_per_person).kept(people, len(rows))
            rows = chosen(rows, self.kept)
            self._codes = None if self._codes is None else self._codes[self.kept]
        self.rows, self.count = rows, rows_of_moments(0, len(rows))

    def read(self) -> None:
        """Read parts once, so that what is wrong with them is known before anything is charged. Rows here are checked already."""
        if self._parts is not None:
            self.total(_nothing)

    def part(self, share: float | None) -> PrivateRows:
        """The same rows, of whose terms this share may be spent, or what is left."""
        found = copy.copy(self)
        found.spending, found._mean = self.spending.part(share), None
        return found

    def changed(self, change: Callable[[Any], Any]) -> PrivateRows:
        """The same with what becomes of each row by itself; made once where it fits into memory."""
        found = copy.copy(self)
        found._change = change
        if self._parts is None and self.count * self.dimension <= _KEPT_ELEMENTS:
            found._changed = list(found._blocks())
        return found

    def total(self, step: Step) -> NDArray[np.int64]:
        """The sum of what `step` makes of each block, and of its codes; of integers, so that no split changes a bit.

        Parts are read for the first time by the first one, which looks for people in two of them; `count` is known after it.
        """
        empty = step(np.empty((0, self.dimension), np.float32), np.empty(0, np.uint32))
        if self._parts is None:
            return sum((step(block, codes) for block, codes in self._changed or self._blocks()), empty)
        known = self._seen is not None
        bound = self.spending.rows_per_person if self._parts.with_people else None
        worker = _Pass(step, self._change, self.names, self.dimension, bound, empty, with_ids=not known)
        found = [_read(part) for part in self._parts.run(worker)]
        seen = sorted((about["rows"], about["digest"]) for about, _ in found)
        if not known:
            ids = [person for about, _ in found for person in about["people"]]
            if len({type(person) for person in ids}) > 1:  # 1 and "1" would be two people
                raise TypeError("people must be all str or all int, got both in different parts")
            if twice := len(ids) - len(set(ids)):
                raise ValueError(f"people must have all their rows in one part, got {twice} who have some in two")
            self._seen, self.count = seen, rows_of_moments(0, sum(rows for rows, _ in seen))
        elif seen != self._seen:
            raise ValueError("rows must come in the same parts in every pass: keep them (persist, materialize, cache) first")
        return sum((total for _, total in found), empty)

    def _blocks(self) -> Iterator[tuple[Any, Any]]:
        yield from _with_codes(self.rows, self._codes, self._change, len(self.names or ()))

    def plan_mean(self, clip_norm: float, share: float) -> Noise:
        """The noise of `mean`, before anything is charged: whatever else is planned before it too is refused before the charge."""
        counts = not self.spending.counts_are_public
        self._mean = self.spending.sums("sum of all rows", 1, self.dimension, clip_norm, share, counts=counts)
        return self._mean

    def mean(self, clip_norm: float, share: float, change: Callable[[Any], Any] | None = None) -> tuple[_Values, float, float]:
        """The noisy mean of clipped rows, the deviation of its noise, and the count that it was divided by.

        Charges before it draws. `change` is applied to blocks of rows first.
        """
        spending = self.spending
        total = self.total(partial(_clipped_sum, clip_norm=clip_norm, change=change))
        noise = self._mean or self.plan_mean(clip_norm, share)
        spending.charge()
        sums = spending.noisy(total, _core.sum_unit(clip_norm), noise.sigma)[0]
        count = float(spending.noisy_counts(np.array([self.count]), noise.count_sigma)[0])
        return sums / max(count, 1.0), noise.sigma / max(count, 1.0), count


@dataclass(frozen=True)
class _Pass:
    """What a worker does with the blocks of its part. It can be pickled, and holds no rows."""

    step: Step
    change: Callable[[Any], Any] | None
    names: tuple[Hashable, ...] | None
    dimension: int
    rows_per_person: int | None  # where blocks have people
    empty: NDArray[np.int64]
    with_ids: bool

    def __call__(self, found: Iterable[Block]) -> bytes:
        people, total, count = People(self.rows_per_person or 1), self.empty.copy(), 0
        for given, groups, ids in found:
            if (ids is None) != (self.rows_per_person is None):
                raise ValueError(f"people must be {'given' if ids is None else 'left out'} in every block, as RowsInParts says")
            rows = as_matrix(given_rows("rows", given, finite=True).values)
            if rows.shape[1] != self.dimension:  # numpy would add a total of one column to each of many
                raise ValueError(f"rows must have {self.dimension} columns in every block, as RowsInParts says, got {rows.shape[1]}")
            codes = None if self.names is None else group_codes(groups, self.names, len(rows))[0]
            if ids is not None:
                kept = people.kept(ids, len(rows))
                people.commit()
                rows, codes = chosen(rows, kept), None if codes is None else codes[kept]
            count += len(rows)
            for block, some in _with_codes(rows, codes, self.change, len(self.names or ())):
                total += self.step(block, some)
        ids = sorted(people.seen)
        about = {"rows": count, "digest": hashlib.sha256(json.dumps(ids).encode()).hexdigest(), "people": ids if self.with_ids else []}
        np.savez(file := io.BytesIO(), about=np.frombuffer(json.dumps(about).encode(), np.uint8), total=total)
        return file.getvalue()


def _read(part: bytes) -> tuple[dict[str, Any], NDArray[np.int64]]:
    with np.load(io.BytesIO(part), allow_pickle=False) as stored:
        return json.loads(stored["about"].tobytes()), stored["total"]


def _with_codes(rows: Any, codes: _Codes | None, change: Callable[[Any], Any] | None, beside: int) -> Iterator[tuple[Any, Any]]:
    first = 0
    for block in blocks(rows, beside):
        last = first + len(block)
        yield block if change is None else change(block), None if codes is None else codes[first:last]
        first = last


def _nothing(rows: Any, codes: Any) -> NDArray[np.int64]:
    return np.zeros(1, np.int64)


def _clipped_sum(rows: Any, codes: Any, *, clip_norm: float, change: Callable[[Any], Any] | None = None) -> NDArray[np.int64]:
    totals = GroupTotals(1, rows.shape[1], clip_norm)
    totals.add(rows if change is None else change(rows), None)
    return totals.sums()


def unit(block: Any) -> NDArray[Any]:
    """Rows [n, d] at unit length on the CPU, each a function of itself alone; a zero row stays 0. 16 bits become float32."""
    rows = _of_32_bits(block)
    return unit_rows(rows, np.empty(rows.shape, rows.dtype))


def _of_32_bits(block: Any) -> NDArray[Any]:
    """Rows on the CPU, of at least so many."""
    rows = np.asarray(on_host(block))
    return rows.astype(np.float32) if rows.dtype == np.float16 else rows


def directions(block: Any, mean: _Values) -> NDArray[np.float32]:
    """(x - mean) / |x - mean| of rows [n, d], float32 on the CPU, each a function of its row; a row equal to the mean is 0."""
    rows = _of_32_bits(block)
    moved = rows - mean.astype(rows.dtype)
    return np.asarray(unit_rows(moved, moved).astype(np.float32, copy=False))
