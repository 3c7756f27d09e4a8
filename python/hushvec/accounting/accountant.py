"""`Accountant`: add releases one by one, ask for the cost so far at any time, save it and load it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hushvec._util import validate
from hushvec.accounting import releases
from hushvec.accounting.composition import Composition, compose_collected
from hushvec.accounting.losses import ADJACENCIES, LOSSES, PrivacyLoss

VERSION = 1


class Accountant:
    """Keeps a list of releases and computes what they cost together.

    Args:
        adjacency: "replace-one" or "add-remove". None: that of the first release; replace-one if that is a pair of numbers.

    Guarantees:
        Every answer is `compose` of all that was added: valid also where later releases depended on earlier ones. The losses
        themselves have to be fixed before the first release: where data decide about the next *loss* (a filter), only sums of
        epsilons, of deltas and of rho are valid.

    Edge cases:
        Without releases epsilon and delta are 0.0. Not safe for use by several threads at once, and not a ledger.

    Example:
        >>> from hushvec.accounting import Accountant, GaussianDP
        >>> accountant = Accountant()
        >>> for _ in range(3):
        ...     accountant.add(GaussianDP(noise_multiplier=10.0))
        >>> round(accountant.epsilon(1e-5), 4), len(accountant)
        (0.62, 3)
    """

    def __init__(self, *, adjacency: str | None = None) -> None:
        self._adjacency = adjacency if adjacency is None else validate.choice("adjacency", adjacency, ADJACENCIES)
        self._counts: dict[PrivacyLoss, int] = {}
        self._of_unit: list[Any] = []  # a receipt that says what all are about; not saved
        self._unamplified = False

    @property
    def adjacency(self) -> str | None:
        """The adjacency of all releases; None until the first one sets it."""
        return self._adjacency

    def add(self, release: Any, count: int = 1, *, independent_samples: bool = False) -> None:
        """Count a release, or `count` equal ones. If it raises, nothing is added.

        Args:
            release: one item as `compose` takes it.
            count: a whole number >= 1.
            independent_samples: your word that a receipt of training rests on samples of its own. An accountant keeps no samples,
                so it is needed where another amplified loss is there already.
        """
        times = validate.whole_number("count", count, at_least=1)
        stated, is_record = validate.flag("independent_samples", independent_samples), releases.sharing_samples([release, release])
        if is_record and not stated and (self.is_amplified or releases.sharing_samples([(release, times)])):
            raise ValueError(
                "independent_samples must be True for a receipt of training beside other amplified losses: where two rest on the "
                "same samples, their epsilons do not add up (compose compares the samples that receipts name)"
            )
        loss, own_count = releases.one("release", release, adjacency=self._adjacency)
        releases.require_one_unit([*self._of_unit, release])
        if self._adjacency is not None and loss.adjacency != self._adjacency:
            raise ValueError(f"adjacency must be {self._adjacency!r} in this accountant, got {loss.adjacency!r}")
        self._adjacency = loss.adjacency
        self._of_unit = self._of_unit or [release][: releases.unit_of(release) is not None]
        if not stated and releases.has_unknown_samples(release):
            self.without_amplification()
        loss = loss.unamplified if self._unamplified else loss
        self._counts[loss] = self._counts.get(loss, 0) + times * own_count

    def without_amplification(self) -> None:
        """Count everything here as if nothing had been sampled or shuffled, now and later: a release rests on samples that are not
        known, and may be those of any other. `to_dict` keeps the losses, not what comes later."""
        self._unamplified, counts, self._counts = True, self._counts, {}
        for loss, count in counts.items():
            self._counts[loss.unamplified] = self._counts.get(loss.unamplified, 0) + count

    def compose(self, *, delta: float | None = None, epsilon: float | None = None) -> Composition:
        """`hushvec.accounting.compose` of everything added."""
        if not self._counts:
            raise ValueError("an accountant without releases has nothing to compose")
        return compose_collected(self._releases(), delta=delta, epsilon=epsilon)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon at this delta, in [0, 1); 0.0 without releases."""
        checked = validate.delta(delta, zero_allowed=True)
        return self.compose(delta=checked).epsilon if self._counts else 0.0

    def delta(self, epsilon: float) -> float:
        """The smallest delta at this epsilon > 0; 0.0 without releases."""
        checked = validate.positive("epsilon", epsilon)
        return self.compose(epsilon=checked).delta if self._counts else 0.0

    @property
    def rho(self) -> float:
        """rho of all releases in zero-concentrated DP; math.inf if one of them has none."""
        return self._releases().rho if self._counts else 0.0

    @property
    def is_amplified(self) -> bool:
        """Whether it holds a loss that sampling or shuffling has lowered."""
        return any(map(releases.is_amplified, self._counts))

    def __len__(self) -> int:
        return sum(self._counts.values())

    def __iter__(self) -> Iterator[tuple[PrivacyLoss, int]]:
        """(loss, count) pairs, each loss once, in the order of their first release."""
        return iter(self._counts.items())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Accountant):
            return NotImplemented
        return self._counts == other._counts and self._adjacency == other._adjacency

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Accountant(adjacency={self._adjacency!r}, releases={len(self)})"

    def to_dict(self) -> dict[str, Any]:
        """Everything, in types that JSON keeps exactly."""
        return {
            "accountant_version": VERSION,
            "adjacency": self._adjacency,
            "releases": [
                {"loss": loss.name, "count": count, **{k: v for k, v in loss.arguments.items() if k != "adjacency"}}
                for loss, count in self._counts.items()
            ],
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Accountant:
        """The accountant that `to_dict` described."""
        expected = ["accountant_version", "adjacency", "releases"]
        if not isinstance(stored, Mapping):
            raise TypeError(f"accountant must be a mapping, got {validate.kind(stored)}")
        found = sorted(map(str, stored))
        if found != expected:
            raise ValueError(f"accountant must have the fields {', '.join(expected)}, got {', '.join(found)}")
        if stored["accountant_version"] != VERSION:
            raise ValueError(f"accountant_version must be {VERSION}, got {stored['accountant_version']!r}")
        if not isinstance(stored["releases"], list):
            raise TypeError(f"releases must be a list, got {validate.kind(stored['releases'])}")
        accountant = cls(adjacency=stored["adjacency"])
        if stored["releases"] and accountant.adjacency is None:
            raise ValueError("adjacency must be given where there are releases, got None")
        for entry in stored["releases"]:
            accountant.add(*_from_entry(entry, accountant.adjacency))
        return accountant

    def _releases(self) -> releases.Releases:
        return releases.Releases.of(self._counts, self._adjacency or ADJACENCIES[0])


def _from_entry(entry: Any, adjacency: str | None) -> tuple[PrivacyLoss, int]:
    if not isinstance(entry, Mapping):
        raise TypeError(f"a release must be a mapping, got {validate.kind(entry)}")
    if "adjacency" in entry:
        raise ValueError("adjacency is that of the accountant, not of a release in it")
    arguments = dict(entry)
    kind = LOSSES[validate.choice("loss", arguments.pop("loss", None), LOSSES)]
    count = arguments.pop("count", None)
    try:
        return kind(**{**arguments, "adjacency": adjacency}), validate.whole_number("count", count, at_least=1)
    except TypeError as mistake:
        raise TypeError(f"a release of loss {kind.name!r} cannot be read: {mistake}") from None
