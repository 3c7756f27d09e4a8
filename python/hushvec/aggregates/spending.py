"""One guarantee split over several statistics: the noise that each of them gets, the charge, and the receipt of all together.

Statistics with Gaussian noise compose exactly: with mu^2 = sum of (sensitivity / sigma)^2, each chosen in view of those before or
not, they are as private as one Gaussian mechanism of noise multiplier 1/mu (Dong, Roth, Su, "Gaussian Differential Privacy", 2022,
corollary 3.3). A statistic is given its share of mu^2. docs/proofs/aggregates.md has the sensitivities.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Hashable, Iterable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._native.kernels import require_generator
from hushvec._util import validate
from hushvec._util.rounding import float32_up, root_up
from hushvec.accounting import ADJACENCIES, GaussianDP
from hushvec.extend import Budget, entry_of_charge, key_fields, require_budget, require_secret_key
from hushvec.noise import gaussian_sigma
from hushvec.receipts import AggregateReceipt, AggregateStatistic, LedgerEntry, squared_mu

ADD_REMOVE, REPLACE_ONE = "add-remove", "replace-one"
_LEAST_NOISE, _MOST_NOISE = 2.0**-16, 2.0**16  # what integers of 63 bits hold in units fine enough for the grid
MOST_GROUPS = 2**22
_Integers = NDArray[np.int64]
_Values = NDArray[np.float64]


class Terms(NamedTuple):
    """What is promised to whom, as every function of this package takes it.

    Args:
        epsilon, delta: the guarantee of everything that the call releases, together; both > 0, delta < 1. A delta above 1 / (10 n)
            for n people is no protection worth the name.
        adjacency: "add-remove": a person is there or not, and how many people there are is private too. "replace-one": a person
            has any other rows; noise is larger by up to a factor of 2.
        people: n ids, str or int, of whose rows they are. None: every row is another person's, or as `rows_per_person` says.
        rows_per_person: the most rows of one person that enter. With `people` the rest is dropped, the first rows stay; without
            it is your word, and the receipt says so.
        budget: a PrivacyBudget, or any object with `consume(epsilon, delta)`: charged once, after every check of the data and
            before anything is drawn.
        generator: key stream; the process-wide one, keyed by the operating system, if None. A seeded one gives no privacy.
    """

    epsilon: float
    delta: float
    adjacency: str = ADD_REMOVE
    people: Any = None
    rows_per_person: int = 1
    budget: Budget | None = None
    generator: _core.Generator | None = None


class Noise(NamedTuple):
    """Standard deviations as used, float32 values: of sums, and of counts; None where these have no noise, or are not released."""

    sigma: float
    count_sigma: float | None


class Spending:
    """The terms, checked, and how much of them is left."""

    def __init__(self, terms: Terms, purpose: str) -> None:
        self.epsilon = validate.positive("epsilon", terms.epsilon)
        self.delta = validate.delta(terms.delta)
        self.adjacency = validate.choice("adjacency", terms.adjacency, ADJACENCIES)
        self.rows_per_person = validate.whole_number("rows_per_person", terms.rows_per_person, at_least=1)
        self.source = require_generator(terms.generator)
        self._bounded = terms.people is not None
        self._purpose = purpose
        self.pay_with(terms.budget)
        self.noise_multiplier = float(gaussian_sigma(self.epsilon, self.delta, 1.0))
        if not _LEAST_NOISE <= self.noise_multiplier or self.noise_multiplier * self.rows_per_person > _MOST_NOISE:
            raise ValueError(
                f"epsilon and delta must give a noise multiplier in [2^-16, 2^16 / rows_per_person], got {self.noise_multiplier!r}"
            )
        self._whole = self._left = 1 / Fraction(self.noise_multiplier) ** 2
        self._statistics: list[AggregateStatistic] = []
        self.entry: LedgerEntry | None = None

    @property
    def replaces(self) -> bool:
        """Whether a person is replaced by another."""
        return self.adjacency == REPLACE_ONE

    @property
    def counts_are_public(self) -> bool:
        """Whether the number of all rows is the same in all neighbors."""
        return self.replaces and self.rows_per_person == 1

    def pay_with(self, budget: Budget | None) -> None:
        """Charge this one. ValueError with a seeded key."""
        if budget is not None:
            require_budget(budget)
            require_secret_key(self.source)
        self.budget = budget

    def part(self, share: float | None) -> Spending:
        """A share of mu^2, or what is left, to spend under the same receipt; whoever divides it charges for the whole."""
        found = copy.copy(self)
        found._whole = found._left = self._part(share)
        found.budget = None
        self._left -= found._whole
        return found

    def charge(self, charge_id: str | None = None) -> None:
        """Charge the budget for everything: after all checks, before the first draw. A ledger knows the id again."""
        if self.budget is not None:
            rho = GaussianDP(noise_multiplier=self.noise_multiplier, adjacency=self.adjacency).rho
            self.entry = entry_of_charge(self.budget, self.epsilon, self.delta, rho, self._purpose, charge_id)

    def sums(self, purpose: str, groups: int, dimension: int, clip_norm: float, share: float | None, *, counts: bool = True) -> Noise:
        """Noise of the sums of rows by group, and of the counts, for a share of mu^2, or for all that is left.

        Counts get as much as makes means best: under add-remove d^(-1/2) of what the sums get, under replace-one what costs nothing.
        """
        of_counts = Fraction(0)
        if counts and not self.replaces:
            of_counts = Fraction(1 << 10, math.isqrt(dimension << 20) + (1 << 10))  # 1 / (d^(1/2) + 1)
        spent, norm = self._part(share), Fraction(clip_norm) * self.rows_per_person
        moved = 2 * norm if self.replaces else norm
        sigma = _deviation(moved**2 / (spent * (1 - of_counts)))
        count_sigma = None
        if counts:
            one = Fraction(2 if self.replaces else 1) * self.rows_per_person
            count_sigma = _deviation(one**2 / (spent * (of_counts or 1)))
        self._add(
            statistic="sums",
            purpose=purpose,
            groups=groups,
            dimension=dimension,
            clip_norm=clip_norm,
            sigma=sigma,
            count_sigma=count_sigma,
        )
        return Noise(sigma, count_sigma)

    def counts(self, purpose: str, groups: int, share: float | None, *, repeats: int = 1) -> float:
        """Deviation of the noise of counts of rows by group; of many such counts, in at most `repeats` of which a row takes part."""
        square = Fraction(2 if self.replaces else 1) * self.rows_per_person**2 * repeats
        sigma = _deviation(square / self._part(share))
        self._add(statistic="counts", purpose=purpose, groups=groups, dimension=0, count_sigma=sigma, repeats=repeats)
        return sigma

    def moments(self, purpose: str, dimension: int, clip_norm: float, share: float | None) -> float:
        """Deviation of the noise of the diagonal of the sum of x x^T; that of every other element is smaller by sqrt(2)."""
        square = Fraction(2 if self.replaces else 1) * self.rows_per_person**2 * Fraction(clip_norm) ** 4
        sigma = _deviation(square / self._part(share))
        self._add(statistic="moments", purpose=purpose, groups=1, dimension=dimension, clip_norm=clip_norm, sigma=sigma)
        return sigma

    def noisy(self, sums: _Integers, unit: float, sigma: float) -> _Values:
        """Exact sums in whole units plus N(0, sigma^2), exactly rounded to sigma's grid."""
        flat = np.ascontiguousarray(sums, np.int64).reshape(-1)
        return _core.release_whole_sums(flat, unit, sigma, self.source).reshape(sums.shape)

    def noisy_counts(self, counts: _Integers, sigma: float | None) -> _Values:
        """Counts of rows plus N(0, sigma^2), exactly rounded; as they are where they are public, and have no noise."""
        if sigma is None:
            return counts.astype(np.float64)
        bits = max(0, 7 - math.frexp(sigma)[1])  # of units as fine as the grid of a small sigma
        return self.noisy(counts << bits, 2.0**-bits, sigma)

    def receipt(self, rows: int | None) -> AggregateReceipt:
        """What was released, and what it guarantees. The number of rows is in it only where it is public."""
        return AggregateReceipt(
            adjacency=self.adjacency,
            rows_per_person=self.rows_per_person,
            rows_bound="people" if self._bounded else "promised",
            epsilon=self.epsilon,
            delta=self.delta,
            noise_multiplier=self.noise_multiplier,
            statistics=tuple(self._statistics),
            rows=rows if self.counts_are_public else None,
            grade="exact",
            **key_fields(self.source),
            is_dp_claim=not self.source.seeded,
            library_version=_core.__version__,
            charge=self.entry,
        )

    def _part(self, share: float | None) -> Fraction:
        """A share of mu^2, or what is left of it."""
        part = self._left if share is None else self._whole * Fraction(share)
        if not 0 < part <= self._left:
            raise ValueError(f"shares of epsilon must be > 0 and at most 1 together, got {float(part / self._whole)!r} more")
        return part

    def _add(self, **fields: Any) -> None:
        statistic = AggregateStatistic(**fields)
        self._left -= squared_mu([statistic], self.adjacency, self.rows_per_person)
        assert self._left >= 0
        self._statistics.append(statistic)


def _deviation(square: Fraction) -> float:
    """The float32 at or above the square root."""
    return float(float32_up(Fraction(root_up(square))))


def group_codes(groups: Any, labels: Any, rows: int, name: str = "groups") -> tuple[NDArray[np.uint32], tuple[Hashable, ...]]:
    """The place of every row's group in the public list of groups, and the list.

    `labels` is that list, or their number: groups are then whole numbers below it.
    """
    if isinstance(groups, np.ma.MaskedArray):
        raise TypeError(f"{name} must be a plain numpy array, got MaskedArray (its mask would be lost)")
    if getattr(groups, "ndim", 1) != 1:
        raise ValueError(f"{name} must have 1 dimension, got {groups.ndim}")
    if len(groups) != rows:
        raise ValueError(f"{name} must have {rows} elements, one for each row, got {len(groups)}")
    if labels is None:
        raise ValueError(f"labels must be given with {name}: the public list of all groups, since those of private rows are private")
    names = _names(labels)
    if isinstance(groups, np.ndarray) and groups.dtype.kind in "iu" and names == tuple(range(len(names))):  # a million in a moment
        if rows and (groups.min() < 0 or groups.max() >= len(names)):
            place = int(((groups < 0) | (groups >= len(names))).argmax())
            raise ValueError(f"{name} must be among the {len(names)} labels, got {groups[place]} at position {place}")
        return groups.astype(np.uint32), names
    given = groups.tolist() if hasattr(groups, "tolist") else list(groups)
    code_of = {label: code for code, label in enumerate(names)}
    try:
        return np.array([code_of[group] for group in given], np.uint32), names
    except (KeyError, TypeError):
        place = next(place for place, group in enumerate(given) if not isinstance(group, Hashable) or group not in code_of)
        raise ValueError(f"{name} must be among the {len(names)} labels, got {given[place]!r:.60} at position {place}") from None


def _names(labels: Any) -> tuple[Hashable, ...]:
    """The public list of groups. numpy's scalars become Python's."""
    if isinstance(labels, str) or not isinstance(labels, Iterable) or getattr(labels, "ndim", 1) == 0:
        count = validate.whole_number("labels", labels, at_least=1)
        if count > MOST_GROUPS:
            raise ValueError(f"labels must be at most 2^22, got {count}")
        return tuple(range(count))
    listed = labels.tolist() if hasattr(labels, "tolist") else labels
    names = tuple(label.item() if isinstance(label, np.generic) else label for label in listed)
    odd = [label for label in names if not isinstance(label, Hashable)]
    if odd:
        raise TypeError(f"labels must be hashable, got {validate.kind(odd[0])} in them")
    different = len(set(names))
    if different != len(names) or not names:
        raise ValueError(f"labels must be different from each other and at least 1, got {len(names)}, of which {different} differ")
    return names


class People:
    """Which rows enter: of each person the first `rows_per_person`. Whether a row enters depends on that person's rows alone."""

    def __init__(self, rows_per_person: int) -> None:
        self._most = rows_per_person
        self.seen: dict[str | int, int] = {}
        self._new: dict[str | int, int] = {}

    def kept(self, people: Any, rows: int) -> NDArray[np.bool_]:
        """For each of these rows, the next ones of the input, whether it enters. They count as seen after `commit`."""
        ids = people.tolist() if hasattr(people, "tolist") else list(people)
        if len(ids) != rows:
            raise ValueError(f"people must have {rows} elements, one for each row, got {len(ids)}")
        first = next(iter(self.seen), ids[0] if ids else 0)  # of one kind in all blocks: 1 and "1" would be two people
        kinds = set(map(type, ids)) - {str if isinstance(first, str) else int}
        if kinds:
            raise TypeError(f"people must be all str or all int, got {sorted(kind.__name__ for kind in kinds)[0]} among them")
        self._new = {}
        kept = np.empty(rows, np.bool_)
        for row, person in enumerate(ids):
            before = self._new.get(person) or self.seen.get(person, 0)
            self._new[person] = before + 1
            kept[row] = before < self._most
        return kept

    def after(self) -> dict[str | int, int]:
        """Whom `commit` makes seen."""
        return self.seen | self._new

    def commit(self) -> None:
        self.seen.update(self._new)
