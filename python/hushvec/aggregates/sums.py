"""Sums, counts and means of many people's rows, by group, from one release."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._native.arrays import as_matrix
from hushvec._native.rowwise import given_rows, require_finite
from hushvec._util import validate
from hushvec._util.display import Sheet, number, plural, shown
from hushvec._util.publish import published_bytes
from hushvec.aggregates.rows import TOGETHER, PrivateRows, RowsInParts
from hushvec.aggregates.spending import Noise, People, Spending, Terms, group_codes
from hushvec.aggregates.totals import GroupTotals, chosen
from hushvec.budget import PrivacyBudget
from hushvec.extend import Budget, ChargeOnce, NotCopied, release_sheet
from hushvec.receipts import AggregateReceipt

_Values = NDArray[np.float64]


@shown
@dataclass(frozen=True)
class PrivateSums:
    """The result of `private_sums`. `print` shows its receipt in words.

    Args:
        sums: float64 [k, d]: of the clipped rows of each group, plus noise.
        counts: float64 [k]: of the rows of each group, plus noise, hence not whole and perhaps negative; None if not asked for.
            Of one group under "replace-one" it is the public number of rows.
        labels: the k groups.
        noise: standard deviation of the noise of every sum, and of every count.
        receipt: the guarantee.
    """

    sums: _Values
    counts: _Values | None
    labels: tuple[Hashable, ...]
    noise: Noise
    receipt: AggregateReceipt

    def means(self) -> _Values:
        """sums / counts, float64 [k, d], with counts of at least 1. Post-processing, hence free. ValueError without counts."""
        if self.counts is None:
            raise ValueError("counts must have been released for means, got counts=False")
        return self.sums / np.maximum(self.counts, 1.0)[:, None]

    def standard_errors(self) -> _Values:
        """How far the noise moves an element of `means`, as a standard deviation, float64 [k].

        To first order, for an element as large as the mean's root mean square. Neither clipping nor the choice of the people in the
        sample is in it.
        """
        means, counts = self.means(), np.maximum(np.asarray(self.counts), 1.0)
        of_counts = (self.noise.count_sigma or 0.0) * np.sqrt((means**2).mean(axis=1))
        return np.asarray(np.hypot(self.noise.sigma, of_counts) / counts)

    def __repr__(self) -> str:
        return f"PrivateSums({self.sums.shape[0]} x {self.sums.shape[1]}, is_dp_claim={self.receipt.is_dp_claim})"

    def _sheet(self) -> Sheet:
        return release_sheet(f"sums of {plural(len(self.labels), 'group')}, {self.sums.shape[1]:,} elements each", self.receipt)


class SumsOfRows(NotCopied):
    """`private_sums` of rows that come in blocks, in bounded memory: add them, then release once.

    Args:
        dimension: d, of every row.
        labels: as in `private_sums`; None: one group.
        with_people: whether ids of people are given with each block, as in `private_sums`.
        epsilon, delta, clip_norm, adjacency, rows_per_person, counts, budget, generator: as in `private_sums`.

    Guarantees:
        As `private_sums` of all rows at once, with the same integers: no split into blocks changes a bit of a total. Nothing is
        drawn or charged before `release`, which can be called once, in the process that made it; `save` and `load` lead into another
        one. `copy` and `pickle` are refused, and a second release of a saved one by its `PrivacyBudget`.
    """

    def __init__(
        self,
        dimension: int,
        *,
        epsilon: float,
        delta: float,
        clip_norm: float = 1.0,
        labels: Any = None,
        adjacency: str = "add-remove",
        rows_per_person: int = 1,
        with_people: bool = False,
        counts: bool = True,
        budget: Budget | None = None,
        generator: _core.Generator | None = None,
    ) -> None:
        self._labels, self._lock, self._released = labels, Lock(), False
        self._id = secrets.token_hex(16)
        self._names = (0,) if labels is None else group_codes((), labels, 0)[1]
        groups = len(self._names)
        terms = Terms(
            epsilon, delta, adjacency, people=() if with_people else None, rows_per_person=rows_per_person,
            budget=self._charged_once(budget), generator=generator,
        )
        self._spending = Spending(terms, f"sums of {plural(groups, 'group')}")
        self._people = People(self._spending.rows_per_person) if with_people else None
        self._counts = validate.flag("counts", counts)
        columns, norm = validate.whole_number("dimension", dimension, at_least=1), validate.clip_norm(clip_norm)
        self._totals = GroupTotals(groups, columns, norm)
        noisy_counts = self._counts and not (groups == 1 and self._spending.counts_are_public)  # public ones need no noise
        purpose = "sums" if labels is None else "sums by group"
        self._noise = self._spending.sums(purpose, groups, columns, norm, None, counts=noisy_counts)

    def add(self, rows: Any, groups: Any = None, people: Any = None) -> None:
        """Add rows [n, d], or one row [d]: float array of numpy, torch or CuPy. Nothing changes if this raises."""
        with self._open():
            matrix, codes = self._checked(rows, groups)
            if (people is None) != (self._people is None):
                which = "left out" if self._people is None else "given"
                raise ValueError(f"people must be {which} in every block, as at the start")
            if self._people is not None:
                kept = self._people.kept(people, len(matrix))
                require_finite("rows", matrix)
                matrix, codes = chosen(matrix, kept), None if codes is None else codes[kept]
            self._totals.add(matrix, codes)
            if self._people is not None:
                self._people.commit()

    def release(self) -> PrivateSums:
        """Charge, draw, and return the noisy sums."""
        spending, totals, noise = self._spending, self._totals, self._noise
        with self._open():
            spending.charge()
            self._released = True
            sums = spending.noisy(totals.sums(), totals.unit, noise.sigma)
            counts = spending.noisy_counts(totals.counts, noise.count_sigma) if self._counts else None
            return PrivateSums(sums, counts, self._names, noise, spending.receipt(int(totals.counts.sum())))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was added so far to a file, atomically. It holds exact sums, and ids of people: as private as the rows."""
        spending, totals, people = self._spending, self._totals, self._people
        with self._open(), published_bytes(Path(path)) as file:
            about = {
                "id": self._id, "dimension": totals.dimension, "clip_norm": totals.clip_norm, "counts": self._counts,
                "labels": None if self._labels is None else [_saved(label) for label in self._names],
                "epsilon": spending.epsilon, "delta": spending.delta, "adjacency": spending.adjacency,
                "rows_per_person": spending.rows_per_person, "paid": spending.budget is not None,
                "people": None if people is None else list(people.seen.items()),
            }  # fmt: skip
            np.savez(file, about=np.frombuffer(json.dumps(about).encode(), np.uint8), sums=totals.sums(), counts=totals.counts)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, budget: Budget | None = None, generator: _core.Generator | None = None
    ) -> SumsOfRows:
        """Go on from a file of `save`. Delete it after the release: without a `PrivacyBudget` nothing else prevents a second one.

        ValueError for something else, and without a budget where the sums were begun with one.
        """
        try:
            with np.load(path, allow_pickle=False) as stored:
                about = json.loads(stored["about"].tobytes())
                saved_id, people = about.pop("id"), about.pop("people")
                paid = about.pop("paid", False)  # of older files not known
                loaded = cls(**about, with_people=people is not None, generator=generator)
                loaded._totals.restore(stored["sums"], stored["counts"])
        # whatever the readers raise for a damaged archive: zip, zlib, numpy and json each have their own errors
        except Exception as mistake:
            raise ValueError(f"{os.fspath(path)} is not a saved SumsOfRows: {mistake}") from None
        if paid and budget is None:
            raise ValueError(f"budget must be given for {os.fspath(path)}, whose sums were begun with one, got None")
        loaded._id = saved_id
        loaded._spending.pay_with(loaded._charged_once(budget))
        if loaded._people is not None:
            loaded._people.seen = dict(map(tuple, people))
        return loaded

    def _charged_once(self, budget: Budget | None) -> Budget | None:
        return ChargeOnce(budget, f"sums/{self._id}") if isinstance(budget, PrivacyBudget) else budget

    def _checked(self, rows: Any, groups: Any) -> tuple[Any, NDArray[np.uint32] | None]:
        matrix = as_matrix(given_rows("rows", rows, finite=False).values)
        if matrix.shape[1] != self._totals.dimension:
            raise ValueError(f"rows must have {self._totals.dimension} columns, got {matrix.shape[1]}")
        if (groups is None) != (self._labels is None):
            raise ValueError(TOGETHER)
        return matrix, None if groups is None else group_codes(groups, self._names, len(matrix))[0]

    @contextmanager
    def _open(self) -> Iterator[None]:
        """One call at a time, and none after the release."""
        self.require_own_process()
        with self._lock:
            if self._released:
                raise ValueError("release must be called once: a second draw would be a second release")
            yield


def _saved(label: Hashable) -> str | int:
    if type(label) not in (str, int):
        raise TypeError(f"labels must be str or int to be saved, got {validate.kind(label)}")
    return label  # type: ignore[return-value]


def private_sums(
    rows: Any,
    groups: Any = None,
    *,
    epsilon: float,
    delta: float,
    clip_norm: float = 1.0,
    labels: Any = None,
    counts: bool = True,
    **terms: Any,
) -> PrivateSums:
    """Sums and counts of many people's rows by group, from one release.

    Args:
        rows: float array [n, d]: numpy (memory-mapped too), torch or CuPy; float32, float64, float16 or bfloat16. Or `RowsInParts`
            of an engine.
        groups: n elements: which group each row is of; None: all are of one.
        clip_norm: C, the L2 norm that rows are clipped to, in the unit of rows; public, not chosen by looking at the rows
            (`private_norm_quantiles` chooses it privately).
        labels: the public list of all groups, or k for groups 0 ... k - 1. Required with groups: which groups private rows have is
            private itself.
        counts: whether the rows of each group are counted too, for means.
        epsilon, delta, and in `terms` adjacency, people, rows_per_person, budget, generator: `hushvec.aggregates.Terms`.

    Raises:
        ValueError: NaN or Inf in rows (the row is named), a group that is not in labels, an argument out of range; nothing is charged.
        PrivacyBudgetExhaustedError: not enough of the budget is left; nothing was charged or released.

    Guarantees:
        (epsilon, delta)-DP for one person, exact as sampled: totals are integers, and a noisy one is the exact rounding of the ideal
        Gaussian mechanism's. With r = rows_per_person a person moves the sums by at most r C (2 r C under "replace-one"), the counts
        by r (sqrt(2) r). An error about a row or a group is visible to anyone who sees that the call failed.

    Reference:
        Dwork and Roth (2014), section 3.5; Balle and Wang (2018), theorem 8; docs/proofs/aggregates.md.

    Example:
        >>> import numpy as np
        >>> from hushvec.aggregates import private_sums
        >>> rows, topics = np.ones((1000, 8), np.float32), ["tea", "milk"] * 500
        >>> sums = private_sums(rows, topics, labels=["milk", "tea"], epsilon=1.0, delta=1e-5)
        >>> sums.sums.shape, sums.means().shape, sums.receipt.is_dp_claim
        ((2, 8), (2, 8), True)
    """
    given_terms = Terms(epsilon, delta, **terms)
    named = given_terms._asdict()
    people = named.pop("people")
    parts = rows if isinstance(rows, RowsInParts) else None
    if parts is not None and parts.with_groups and labels is None:
        raise ValueError(TOGETHER)
    given: Any = given_rows("rows", rows, finite=False) if parts is None else parts
    by_person = people is not None if parts is None else parts.with_people
    collector = SumsOfRows(given.dimension, clip_norm=clip_norm, labels=labels, counts=counts, with_people=by_person, **named)
    if parts is None:
        collector.add(given.values, groups, people)
    else:
        read = PrivateRows(parts, given_terms, "", groups, labels)
        total = read.total(partial(_sums_and_counts, groups=len(read.names or (0,)), clip_norm=clip_norm))
        collector._totals.restore(total[:, :-1], total[:, -1])
    return collector.release()


def _sums_and_counts(rows: Any, codes: Any, *, groups: int, clip_norm: float) -> NDArray[np.int64]:
    totals = GroupTotals(groups, rows.shape[1], clip_norm)
    totals.add(rows, codes)
    return np.hstack([totals.sums(), totals.counts[:, None]])


@shown
@dataclass(frozen=True)
class PrivateMean:
    """The result of `private_mean`. `print` shows its receipt in words.

    Args:
        mean: float64 [d].
        count: how many rows there are, with noise where that is private.
        standard_error: how far the noise moves an element of the mean: `PrivateSums.standard_errors`.
        receipt: the guarantee.
    """

    mean: _Values
    count: float
    standard_error: float
    receipt: AggregateReceipt

    def __repr__(self) -> str:
        return f"PrivateMean({len(self.mean)}, standard_error={self.standard_error:.3g}, is_dp_claim={self.receipt.is_dp_claim})"

    def _sheet(self) -> Sheet:
        error = f"each with a standard error of {number(self.standard_error)}"
        return release_sheet(f"a mean of {len(self.mean):,} elements, {error}, of about {self.count:,.0f} rows", self.receipt)


def private_mean(rows: Any, *, epsilon: float, delta: float, clip_norm: float = 1.0, **terms: Any) -> PrivateMean:
    """The mean of many people's clipped rows, with the standard error of its noise.

    Args:
        rows, clip_norm, epsilon, delta and terms: as in `private_sums`.

    Guarantees:
        As `private_sums`, of which this is the quotient. Rows longer than clip_norm are clipped, which moves the mean; the standard
        error does not know that.

    Example:
        >>> import numpy as np
        >>> from hushvec.aggregates import private_mean
        >>> private_mean(np.full((1000, 4), 0.5, np.float32), epsilon=1.0, delta=1e-5).mean.shape
        (4,)
    """
    sums = private_sums(rows, clip_norm=clip_norm, **Terms(epsilon, delta, **terms)._asdict())
    assert sums.counts is not None
    return PrivateMean(sums.means()[0], float(sums.counts[0]), float(sums.standard_errors()[0]), sums.receipt)
