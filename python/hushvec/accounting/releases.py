"""A list of releases, brought into the form that the theorems read.

Composition takes the coins of every release to be its own. Amplified releases that share coins (a sample, an order of reports)
compose only as if they had no amplification (docs/proofs/dp_sgd.md, "One sample, two releases").
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

from hushvec._util import validate
from hushvec._util.rounding import quotient_down, sum_up, total, up
from hushvec.accounting.discrete import DiscreteReleases
from hushvec.accounting.losses import ADJACENCIES, ApproximateDP, DiscreteGaussianDP, GaussianDP, PrivacyLoss, PureDP


@dataclass(frozen=True)
class SampleRange:
    """Samples `first` to `last`, numbered from 1, that the process of this random name (32 hexadecimal digits) drew."""

    process: str
    first: int
    last: int


def shared(recorded: Sequence[Sequence[SampleRange] | None]) -> set[int]:
    """Places of the amplified releases that may rest on a sample of another one. None is not known, and may be any sample."""
    if len(recorded) > 1 and any(ranges is None for ranges in recorded):
        return set(range(len(recorded)))
    ordered = sorted((one.process, one.first, one.last, place) for place, ranges in enumerate(recorded) for one in ranges or ())
    found: set[int] = set()
    process, furthest, owner = "", 0, -1
    for name, first, last, place in ordered:
        if name == process and first <= furthest and place != owner:
            found |= {owner, place}
        if name != process or last > furthest:
            process, furthest, owner = name, last, place
    return found


@dataclass(frozen=True)
class Repeated:
    """The same release `count` times; `item` is anything that `compose` takes as one release."""

    item: Any
    count: int

    def __post_init__(self) -> None:
        validate.whole_number("count", self.count, at_least=1)


@dataclass(frozen=True)
class Releases:
    """(loss, count) pairs of one adjacency, in no order. `unamplified` items count so, as they may rest on one sample."""

    counts: tuple[tuple[PrivacyLoss, int], ...]
    adjacency: str
    unamplified: int = 0

    @classmethod
    def of(cls, counts: Mapping[PrivacyLoss, int], adjacency: str, unamplified: int = 0) -> Releases:
        """In one order, whichever the losses came in, so that the rounding of sums is the same too."""
        ordered = sorted(counts.items(), key=lambda item: (item[0].name, *item[0].arguments.values()))
        return cls(tuple(ordered), adjacency, unamplified)

    @cached_property
    def number(self) -> int:
        return sum(count for _, count in self.counts)

    @cached_property
    def only(self) -> PrivacyLoss | None:
        """The loss, if there is one release only."""
        return self.counts[0][0] if self.number == 1 else None

    @cached_property
    def failure(self) -> float:
        """1 - product of (1 - delta) over the ApproximateDP losses, rounded up: the probability that a guarantee fails."""
        failing = [(loss.failure_delta, count) for loss, count in self.counts if loss.failure_delta]
        if len(failing) == 1 and failing[0][1] == 1:
            return failing[0][0]
        if not failing:
            return 0.0
        together = -math.expm1(math.fsum(count * math.log1p(-delta) for delta, count in failing))
        return min(1.0, sum_up(failing), up(together, units=16))

    @cached_property
    def core(self) -> Releases:
        """The losses that remain where nothing failed: an (epsilon, delta) loss is then a pure one."""
        counts: dict[PrivacyLoss, int] = {}
        for loss, count in self.counts:
            promised = PureDP(epsilon=loss.epsilon_bound, adjacency=self.adjacency) if isinstance(loss, ApproximateDP) else loss
            counts[promised] = counts.get(promised, 0) + count
        return Releases.of(counts, self.adjacency)

    @cached_property
    def discrete(self) -> tuple[DiscreteReleases, ...]:
        """The discrete Gaussians whose profile is known by way of the Gaussian's."""
        found = [(loss, count) for loss, count in self.of_kind(DiscreteGaussianDP) if not loss.is_summed]
        return tuple(DiscreteReleases(loss.sigma, loss.sensitivity, loss.coordinates, count) for loss, count in found)

    @cached_property
    def continuous(self) -> Releases:
        """With Gaussian noise in place of that of `discrete`."""
        if not self.discrete:
            return self
        counts: dict[PrivacyLoss, int] = {}
        for loss, count in self.counts:
            if isinstance(loss, DiscreteGaussianDP) and not loss.is_summed:
                loss = GaussianDP(noise_multiplier=quotient_down(loss.sigma, loss.sensitivity), adjacency=self.adjacency)
            counts[loss] = counts.get(loss, 0) + count
        return Releases.of(counts, self.adjacency)

    @cached_property
    def spent(self) -> float:
        """Sum of the deltas that the losses spend themselves, rounded up."""
        return sum_up((loss.failure_delta, count) for loss, count in self.counts)

    @cached_property
    def are_pure(self) -> bool:
        return all(loss.pure_epsilon < math.inf for loss, _ in self.counts)

    @cached_property
    def are_gaussian(self) -> bool:
        return all(isinstance(loss, GaussianDP) for loss, _ in self.counts)

    @cached_property
    def rho(self) -> float:
        """Sum of the losses in zero-concentrated DP, rounded up."""
        terms = [loss.rho * count for loss, count in self.counts]
        return math.inf if math.inf in terms else up(total(terms), units=8)

    def of_kind(self, kind: type[PrivacyLoss]) -> list[tuple[Any, int]]:
        return [(loss, count) for loss, count in self.counts if isinstance(loss, kind)]


def collect(releases: Any, *, independent_samples: bool) -> Releases:
    """Releases from what `compose` documents; checked."""
    if isinstance(releases, (str, bytes, PrivacyLoss, Repeated)) or not isinstance(releases, Iterable):
        raise TypeError(f"releases must be a list of releases, got {validate.kind(releases)}")
    items, adjacency = list(releases), None
    counted = [_counted(f"releases[{index}]", item) for index, item in enumerate(items)]
    if not counted:
        raise ValueError("releases must not be empty")
    dependent = set() if validate.flag("independent_samples", independent_samples) else sharing_samples(items)
    for index, (release, _) in enumerate(counted):
        if not isinstance(release, PrivacyLoss):
            continue
        adjacency = adjacency or release.adjacency
        if release.adjacency != adjacency:
            raise ValueError(f"releases must all have one adjacency, got {adjacency!r} and {release.adjacency!r} (releases[{index}])")
    require_one_unit(items)
    adjacency = adjacency or ADJACENCIES[0]
    counts: dict[PrivacyLoss, int] = {}
    for index, (release, count) in enumerate(counted):
        loss = release if isinstance(release, PrivacyLoss) else from_pair(*release, adjacency=adjacency)
        loss = loss.unamplified if index in dependent else loss
        counts[loss] = counts.get(loss, 0) + count
    return Releases.of(counts, adjacency, len(dependent))


def unit_of(item: Any) -> float | None:
    """Of how many rows of a person a receipt speaks; None for a bare loss, whose unit is that of its company."""
    if isinstance(item, Repeated):
        return unit_of(item.item)
    if isinstance(item, (tuple, list)):
        return unit_of(item[0]) if item else None
    unit: float | None = getattr(item, "unit", None) if hasattr(item, "has_loss") else None
    return unit


def unit_in_words(rows: float) -> str:
    return "one row" if rows == 1 else "one person" if rows == math.inf else f"a person with at most {rows} rows"


def require_one_unit(items: Sequence[Any]) -> None:
    """ValueError where receipts are about different units: a person's five rows and another's single row have no common sum."""
    units = {unit: index for index, item in reversed([*enumerate(items)]) if (unit := unit_of(item)) is not None}
    if len(units) > 1:
        first, second = sorted(units, key=units.__getitem__)[:2]
        raise ValueError(
            f"releases must all be about one unit of privacy, got {unit_in_words(first)!r} and {unit_in_words(second)!r} "
            f"(releases[{units[second]}]): a sum is about the smaller of them alone, and the losses of the receipts give it"
        )


def sharing_samples(items: Sequence[Any]) -> set[int]:
    """Places of the records of amplified releases that may share a sample with another record, or are there several times.

    A record has a `loss` and `samples`, as a receipt of training has; a bare loss is taken to have its own.
    """
    found = {place: record for place, item in enumerate(items) if (record := _record(item)) is not None}
    places = [place for place, (_, copies) in found.items() for _ in range(min(copies, 2))]
    sharing = {places[index] for index in shared([found[place][0].samples or None for place in places])}
    return {place for place in sharing if is_amplified(found[place][0])}


def has_unknown_samples(item: Any) -> bool:
    """Whether it is a record of a release without amplification that may rest on the samples of another one."""
    record = _record(item)
    return record is not None and not is_amplified(record[0])


def is_amplified(item: Any) -> bool:
    """Whether its loss holds only as long as a sample or an order stays secret."""
    loss = one("release", item, adjacency=None)[0]
    return loss.unamplified is not loss


def _record(item: Any) -> tuple[Any, int] | None:
    """The record of a release that rests on samples, in an item as `compose` takes it, and how often it is in there."""
    if isinstance(item, Repeated):
        item = (item.item, item.count)
    if isinstance(item, (tuple, list)) and len(item) == 2 and not _is_number(item[0]):
        inner = _record(item[0])
        return None if inner is None else (inner[0], inner[1] * item[1])
    return (item, 1) if hasattr(item, "samples") and (item.samples is None or is_amplified(item)) else None


def one(name: str, item: Any, *, adjacency: str | None) -> tuple[PrivacyLoss, int]:
    """A loss and its count from one release as `compose` takes it."""
    release, count = _counted(name, item)
    if isinstance(release, PrivacyLoss):
        return release, count
    return from_pair(*release, adjacency=adjacency or ADJACENCIES[0]), count


def from_pair(epsilon: float, delta: float, *, adjacency: str) -> PrivacyLoss:
    if delta == 0:
        return PureDP(epsilon=epsilon, adjacency=adjacency)
    return ApproximateDP(epsilon=epsilon, delta=delta, adjacency=adjacency)


def _counted(name: str, item: Any) -> tuple[PrivacyLoss | tuple[float, float], int]:
    if isinstance(item, Repeated):
        release, of_one = _counted(name, item.item)
        return release, of_one * item.count
    if isinstance(item, (tuple, list)) and len(item) == 2 and not _is_number(item[0]):
        count = validate.whole_number(f"{name} count", item[1], at_least=1)
        release, of_one = _counted(name, item[0])
        return release, of_one * count
    attached = getattr(item, "loss", None)
    if isinstance(attached, Repeated):
        return _release(name, attached.item), attached.count
    return _release(name, item), 1


def _release(name: str, item: Any) -> PrivacyLoss | tuple[float, float]:
    """A loss, the `.loss` of an object, or a checked (epsilon, delta) pair, which takes the adjacency of its company."""
    if isinstance(item, PrivacyLoss):
        return item
    attached = getattr(item, "loss", None)
    if isinstance(attached, PrivacyLoss):
        return attached
    if isinstance(item, (tuple, list)) and len(item) == 2 and _is_number(item[0]):
        pair = ApproximateDP(epsilon=item[0], delta=item[1])
        return pair.epsilon_bound, pair.delta_bound
    raise TypeError(
        f"{name} must be a privacy loss, an object with a `loss`, an (epsilon, delta) pair or a (release, count) pair, "
        f"got {validate.kind(item)}"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (Real, str, type(None)))


def gaussian_part(releases: Releases) -> float:
    """Sum of 1/s^2 over the Gaussian releases, rounded up; 0.0 if there are none."""
    inverses = [(1 / loss.noise_multiplier, count) for loss, count in releases.of_kind(GaussianDP)]
    return up(total(count * inverse * inverse for inverse, count in inverses), units=16) if inverses else 0.0


# Less noise and fewer people are a larger loss; more of anything else is too (docs/proofs/composition.md, "Fewer different losses").
_LESS_IS_WORSE = ("noise_multiplier", "n")


def coarsened(releases: Releases, kinds: tuple[type[PrivacyLoss], ...], most: int) -> Releases:
    """As many releases, of at most `most` different losses of the given kinds, none smaller than it was; other kinds stay."""
    entries: dict[type[PrivacyLoss], list[tuple[PrivacyLoss, int]]] = defaultdict(list)
    for loss, count in releases.counts:
        if isinstance(loss, kinds):
            entries[type(loss)].append((loss, count))
    if sum(map(len, entries.values())) <= most:
        return releases
    counts = {loss: count for loss, count in releases.counts if not isinstance(loss, kinds)}
    share = max(1, most // len(entries))
    for ordered in entries.values():   # Releases keep their losses ordered by their arguments
        size = -(-len(ordered) // share)
        for start in range(0, len(ordered), size):
            group = ordered[start : start + size]
            worst = _worst([loss for loss, _ in group])
            counts[worst] = counts.get(worst, 0) + sum(count for _, count in group)
    return Releases.of(counts, releases.adjacency)


def _worst(losses: list[PrivacyLoss]) -> PrivacyLoss:
    arguments = {
        name: (min if name in _LESS_IS_WORSE else max)(loss.arguments[name] for loss in losses) for name in losses[0].arguments
    }
    return type(losses[0])(**arguments)
