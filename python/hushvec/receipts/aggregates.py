"""Receipts of aggregates: noisy statistics of many people's rows, and whether their guarantee follows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

import numpy as np

from hushvec._util import validate
from hushvec._util.display import number, plural
from hushvec.accounting import ADJACENCIES, GaussianDP
from hushvec.errors import ReceiptError
from hushvec.noise.calibration import gaussian_delta, gaussian_epsilon
from hushvec.receipts import base
from hushvec.receipts.base import Facts, Number, OneOf, ReceiptFields, WholeNumber, read_as, rules_of

AGGREGATE_KIND = "aggregate"
MECHANISM = "gaussian"
STATISTICS = ("sums", "counts", "moments")
ROWS_BOUNDS = ("people", "promised")

MOST_STATISTICS = 64
_LEAST, _MOST = 2.0**-100, 2.0**100

_OptionalClipNorm = Annotated[
    float | None, Number("in [2^-100, 2^100], or null", lambda value: _LEAST <= value <= _MOST, optional=True)
]

# Fields that a statistic must have, and those that must be null.
_GIVEN = {"sums": ("clip_norm", "sigma"), "counts": ("count_sigma",), "moments": ("clip_norm", "sigma")}
_NULL = {"sums": (), "counts": ("clip_norm", "sigma"), "moments": ("count_sigma",)}


@dataclass(frozen=True)
class AggregateStatistic:
    """One statistic of a release of aggregates.

    Args:
        statistic: "sums": of the clipped rows of each group; "counts": rows of each group; "moments": the sum of x x^T over the
            clipped rows x.
        purpose: what it is for, in plain words.
        groups: k >= 1, how many groups there are; 1 for moments.
        dimension: d, elements in a row; 0 for counts.
        clip_norm: C in [2^-100, 2^100], the L2 norm that rows were clipped to; None for counts.
        sigma: standard deviation of the noise on every element of the sums, or on every diagonal element of the moments, whose
            others have sigma / sqrt(2), rounded up. A float32; None for counts.
        count_sigma: standard deviation of the noise on every group's count. A float32; None where no counts are released, and for
            moments.
        repeats: of so many releases like this one a row takes part in at most, >= 1: 1, or for votes as many as a row casts.

    Raises:
        ReceiptError: a field of the wrong kind. Fields that contradict each other are found by `hushvec.verify_receipt`.
    """

    statistic: Annotated[str, OneOf(*STATISTICS)]
    purpose: base.Text
    groups: base.CountFromOne
    dimension: base.Count
    clip_norm: _OptionalClipNorm = None
    sigma: base.OptionalPositive = None
    count_sigma: base.OptionalPositive = None
    repeats: base.CountFromOne = 1

    def __post_init__(self) -> None:
        for name, rule in rules_of(AggregateStatistic).items():
            rule(f"statistics.{name}", getattr(self, name))


def _statistics(name: str, value: Any) -> None:
    if not isinstance(value, tuple) or not all(isinstance(one, AggregateStatistic) for one in value):
        fields = "statistic, purpose, groups, dimension, clip_norm, sigma, count_sigma and repeats"
        raise ReceiptError(f"{name} must be a list of objects with {fields}")
    if not 1 <= len(value) <= MOST_STATISTICS:
        raise ReceiptError(f"{name} must have 1 to {MOST_STATISTICS} objects, got {len(value)}")


@dataclass(frozen=True, kw_only=True)
class AggregateReceipt(ReceiptFields):
    """The record of statistics of many people's rows, and the guarantee that they give one person together.

    Fields that are not listed mean what they do in every receipt: `hushvec.receipts.base.ReceiptFields`.

    Args:
        mechanism: "gaussian".
        adjacency: "add-remove": a person with all their rows is there or not; "replace-one": the person has any other rows.
        rows_per_person: r >= 1, the most rows of one person that entered.
        rows_bound: "people": ids of people were given, and rows of a person beyond rows_per_person were dropped. "promised": the
            caller's word.
        epsilon, delta: guaranteed for everything together; delta in (0, 1).
        noise_multiplier: at most 1/mu, mu the parameter of Gaussian DP of everything together.
        statistics: 1 to 64 of `AggregateStatistic`; each may have been chosen in view of those before.
        rows: how many rows there were, or None. Only for "replace-one" with one row per person: elsewhere the number is private.

    Guarantees:
        It holds if noise_multiplier^2 `squared_mu` <= 1, in exact arithmetic, and the Gaussian mechanism of that multiplier has at
        most this delta at this epsilon.

    Reference:
        Dong, Roth, Su (2022), "Gaussian Differential Privacy", corollary 3.3: composition. Balle and Wang (2018), theorem 8: delta.
        Dwork, Talwar, Thakurta, Zhang (2014), "Analyze Gauss": moments.
    """

    mechanism: Annotated[str, OneOf(MECHANISM)] = MECHANISM
    adjacency: Annotated[str, OneOf(*ADJACENCIES)]
    rows_per_person: base.CountFromOne
    rows_bound: Annotated[str, OneOf(*ROWS_BOUNDS)]
    epsilon: base.NotNegative
    delta: Annotated[float, Number("> 0 and < 1", lambda value: 0 < value < 1)]
    noise_multiplier: base.Positive
    statistics: Annotated[tuple[AggregateStatistic, ...], _statistics]
    rows: Annotated[int | None, WholeNumber(0, optional=True)]
    grade: base.Exact
    key_source: base.KeySource
    cipher: base.Cipher
    rounds: base.Rounds
    format_version: base.FormatVersion
    is_dp_claim: base.Flag
    library_version: base.Text
    notes: base.Notes = ()
    charge: base.OptionalCharge = None
    receipt_version: base.Version = 1
    receipt_kind: Annotated[str, OneOf(AGGREGATE_KIND)] = AGGREGATE_KIND

    _basis = "noise"

    @classmethod
    def _read(cls, fields: Mapping[str, Any]) -> dict[str, Any]:
        statistics = fields["statistics"]
        if isinstance(statistics, (list, tuple)):
            statistics = tuple(read_as(AggregateStatistic, one) for one in statistics)
        return {**super()._read(fields), "statistics": statistics}

    def to_dict(self) -> dict[str, Any]:
        fields = super().to_dict()
        return {**fields, "statistics": list(fields["statistics"])}

    @property
    def loss(self) -> GaussianDP:
        """The privacy loss of everything together, for `hushvec.accounting.compose`: that of the stated noise_multiplier.

        Meaningful if `verify_receipt` found that the receipt holds.
        """
        return GaussianDP(noise_multiplier=self.noise_multiplier, adjacency=self.adjacency)

    @property
    def unit(self) -> float:
        """All rows of a person where ids of people were given, since further ones were dropped; else as many as were promised."""
        return math.inf if self.rows_bound == "people" else self.rows_per_person

    def _faults(self) -> list[str]:
        faults = []
        if self.rows is not None and (self.adjacency != "replace-one" or self.rows_per_person != 1):
            faults.append(f"rows must be null except for replace-one with rows_per_person = 1, got {self.rows}")
        inconsistent = [
            f"statistics[{place}]: {fault}" for place, one in enumerate(self.statistics) for fault in _statistic_faults(one)
        ]
        if not inconsistent:
            square = squared_mu(self.statistics, self.adjacency, self.rows_per_person)
            if Fraction(self.noise_multiplier) ** 2 * square > 1:
                needed = f"the statistics give mu = {_root(square):.6g}"
                faults.append(f"noise_multiplier must be <= 1 / mu, got {self.noise_multiplier!r}: {needed}")
        return [*faults, *inconsistent, *self._multiplier_faults()]

    def _multiplier_faults(self) -> list[str]:
        delta = gaussian_delta(self.epsilon, self.noise_multiplier)
        if delta <= self.delta:
            return []
        epsilon = gaussian_epsilon(self.delta, self.noise_multiplier)
        return [
            f"noise_multiplier = {self.noise_multiplier!r} gives delta = {delta:.4g} at epsilon = {self.epsilon!r}, more than the "
            f"{self.delta!r} stated; at that delta it gives epsilon = {epsilon:.6g}"
        ]

    @property
    def _unit(self) -> str:
        return f"one person (at most {plural(self.rows_per_person, 'row')})"

    def _guarantee(self, verb: str) -> str:
        kind = {"add-remove": "addition or removal", "replace-one": "replacement"}[self.adjacency]
        return f"({self.epsilon!r}, {self.delta!r})-DP under {kind} of {self._unit} {verb}"

    def _described(self) -> tuple[str, str, Facts]:
        most = f"at most {plural(self.rows_per_person, 'row')}"
        bound = {
            "people": f"{most}: ids of people were given, further rows were dropped",
            "promised": f"{most}: ONLY PROMISED by the caller, nothing was dropped",
        }
        facts = [
            ("mechanism", f"Gaussian noise; noise multiplier {number(self.noise_multiplier)} of everything together"),
            *((one.statistic, _in_words(one)) for one in self.statistics),
            ("one person", bound[self.rows_bound]),
        ]
        if self.rows is not None:
            facts.append(("rows", f"{self.rows:,}"))
        return "Receipt of aggregates", self._unit, facts


def squared_mu(statistics: Sequence[AggregateStatistic], adjacency: str, rows_per_person: int) -> Fraction:
    """The squared parameter of Gaussian DP of several statistics released together, exact.

    Args:
        statistics: what is released of the rows of the same people; each may be chosen in view of the noisy ones before.
        adjacency: "add-remove" or "replace-one", as `AggregateReceipt` explains.
        rows_per_person: r >= 1, the most rows of one person that enter.

    Returns:
        mu^2, dimensionless: everything together is no worse than one Gaussian of noise multiplier 1/mu.

    Raises:
        ValueError: a statistic contradicts itself, or an argument breaks its rule.
        TypeError: an argument of the wrong kind.

    Guarantees:
        The sum over the statistics, in rationals. With C = clip_norm, s = sigma, t = count_sigma, terms without t left out:
        sums cost r^2 (C^2/s^2 + 1/t^2) under add-remove and r^2 max(4 C^2/s^2, 2 C^2/s^2 + 2/t^2) under replace-one, where a
        person stays in the group or changes it; counts r^2/t^2 and 2 r^2/t^2; moments r^2 C^4/s^2 and 2 r^2 C^4/s^2. All of it times
        repeats: releases in which a row takes no part cost it nothing.

    Reference:
        Dong, Roth, Su (2022), "Gaussian Differential Privacy", theorem 2.7 and corollary 3.3.

    Example:
        >>> from hushvec.receipts.aggregates import AggregateStatistic, squared_mu
        >>> counts = AggregateStatistic(statistic="counts", purpose="people", groups=3, dimension=0, count_sigma=4.0)
        >>> squared_mu([counts], "add-remove", 1), squared_mu([counts, counts], "replace-one", 2)
        (Fraction(1, 16), Fraction(1, 1))
    """
    validate.choice("adjacency", adjacency, ADJACENCIES)
    rows = validate.whole_number("rows_per_person", rows_per_person, at_least=1)
    for place, one in enumerate(statistics):
        for fault in _statistic_faults(one):
            raise ValueError(f"statistics[{place}]: {fault}")
    return rows**2 * sum((one.repeats * _of_one_row(one, replaced=adjacency == "replace-one") for one in statistics), Fraction(0))


def _of_one_row(one: AggregateStatistic, *, replaced: bool) -> Fraction:
    """mu^2 of a consistent statistic if a person has one row."""
    counts = Fraction(0) if one.count_sigma is None else 1 / Fraction(one.count_sigma) ** 2
    if one.clip_norm is None or one.sigma is None:
        return 2 * counts if replaced else counts
    clip_norm, variance = Fraction(one.clip_norm), Fraction(one.sigma) ** 2
    if one.statistic == "moments":
        return (2 if replaced else 1) * clip_norm**4 / variance
    rows = clip_norm**2 / variance
    return max(4 * rows, 2 * rows + 2 * counts) if replaced else rows + counts


def _statistic_faults(one: AggregateStatistic) -> list[str]:
    """Contradictions between the fields of a statistic."""
    kind = one.statistic
    faults = [f"{name} must be given for {kind}, got null" for name in _GIVEN[kind] if getattr(one, name) is None]
    faults += [f"{name} must be null for {kind}, got {getattr(one, name)!r}" for name in _NULL[kind] if getattr(one, name) is not None]
    if kind == "counts" and one.dimension != 0:
        faults.append(f"dimension must be 0 for counts, got {one.dimension}")
    if kind != "counts" and one.dimension == 0:
        faults.append(f"dimension must be >= 1 for {kind}, got 0")
    if kind == "moments" and one.groups != 1:
        faults.append(f"groups must be 1 for moments, got {one.groups}")
    for name in ("sigma", "count_sigma"):
        value = getattr(one, name)
        if value is not None and not (_LEAST <= value <= _MOST and float(np.float32(value)) == value):
            faults.append(f"{name} must be a float32 in [2^-100, 2^100], got {value!r}")
    return faults


def _in_words(one: AggregateStatistic) -> str:
    counts = f"counts with sigma {number(one.count_sigma)}"
    times = "" if one.repeats == 1 else f"; a row takes part in at most {one.repeats:,} of them"
    if one.statistic == "counts":
        return f"{one.purpose}: {plural(one.groups, 'group')}, {counts}{times}"
    shape = f"{one.dimension if one.statistic == 'moments' else one.groups:,} x {one.dimension:,}"
    text = f"{one.purpose}: {shape}, clipped to length {number(one.clip_norm)} (L2), noise sigma {number(one.sigma)}"
    return text + times if one.count_sigma is None else f"{text}; {counts}{times}"


def _root(square: Fraction) -> float:
    """About sqrt(square), which may be beyond the squares of floats."""
    shift = (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    return math.sqrt(square / Fraction(4) ** shift) * 2.0**shift
