"""`compose`: one (epsilon, delta) for many releases, and the theorem it comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from hushvec._util import validate
from hushvec._util.display import Sheet, at_least, plural, shown
from hushvec._util.rounding import sum_up
from hushvec.accounting import extra
from hushvec.accounting.losses import PoissonSampledGaussianDP
from hushvec.accounting.releases import Releases, collect
from hushvec.accounting.theorems import THEOREMS
from hushvec.errors import MissingExtraError


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """The bound of one theorem.

    Args:
        theorem: its short name: "single", "basic", "advanced", "optimal", "gaussian", "zcdp", "rdp" or "pld".
        epsilon, delta: its bound; epsilon is math.inf (or delta 1.0) where it gives none.
        reference: the paper and the theorem in it.
        note: why it gives no bound; empty if it does.
    """

    theorem: str
    epsilon: float
    delta: float
    reference: str
    note: str = ""


@shown
@dataclass(frozen=True, kw_only=True)
class Composition:
    """What releases cost together. `print` shows what every theorem says, the smallest bound first.

    Args:
        epsilon, delta: all releases together are (epsilon, delta)-DP.
        theorem: the short name of the theorem that says so.
        adjacency: of all the releases.
        candidates: what every theorem says, smallest first, those without a bound last.
        releases: how many there are.
        unamplified: how many items of the list count without amplification, as they may rest on one sample.
    """

    epsilon: float
    delta: float
    theorem: str
    adjacency: str
    candidates: tuple[Candidate, ...]
    releases: int
    unamplified: int = 0

    @property
    def reference(self) -> str:
        """The paper and the theorem in it."""
        return self.candidates[0].reference

    def _sheet(self) -> Sheet:
        return Sheet(
            f"Composition of {plural(self.releases, 'release')}",
            (
                ("together", f"{_price(self.epsilon, self.delta)}, {self.adjacency}"),
                *((one.theorem, one.note or _price(one.epsilon, one.delta)) for one in self.candidates),
            ),
            (
                *(("delta is 1, so this guarantees nothing",) if self.delta >= 1 else ()),
                *((self._why_unamplified,) if self.unamplified else ()),
            ),
        )

    @property
    def _why_unamplified(self) -> str:
        return f"{self.unamplified} items count without amplification: their samples are the same, or not known to be independent"


def _price(epsilon: float, delta: float) -> str:
    return f"epsilon {at_least(epsilon)}, delta {at_least(delta)}"


def compose(
    releases: Any, *, delta: float | None = None, epsilon: float | None = None, independent_samples: bool = False
) -> Composition:
    """The smallest valid (epsilon, delta) of many releases about the same people, and the theorem it comes from.

    Args:
        releases: a list. Each item is a privacy loss, an object whose `loss` is one (mechanisms and receipts have it), an
            (epsilon, delta) pair of numbers, or such a thing with how often it happens: ``(item, count)`` or
            ``Repeated(item, count)``. A pair takes the adjacency of the losses beside it, replace-one if there are none.
        delta: the delta to state, in [0, 1); the smallest epsilon is looked for. Without it, and without epsilon, it is the sum of
            the deltas of the releases, 0 if all are pure.
        epsilon: > 0, the epsilon to state; the smallest delta is looked for. Not together with delta.
        independent_samples: your word that receipts of training rest on samples of their own where they do not show it.

    Returns:
        A Composition, with every theorem's answer in `candidates`.

    Raises:
        ValueError: a value breaks its rule; adjacencies are mixed; no theorem gives a bound, such as for delta = 0 with
            Gaussian noise, or a delta below that of the releases; delta is needed and not given.
        TypeError: something is no release, or a count no whole number.
        MissingExtraError: releases are Poisson-sampled and hushvec[accounting] is not installed.
        RuntimeError: floating-point numbers are not rounded to nearest in this thread.

    Guarantees:
        Valid for releases chosen adaptively, each with a loss fixed in advance, and never below what its theorem gives in real
        arithmetic. Which releases were passed in which order does not change the answer. One release costs exactly what its own
        loss says. Where hushvec[accounting] is missing, "pld" is left out, so a bound may be larger without it than with it.
        Amplified losses compose only if their samples are independent. Receipts of training show it where their `samples` are
        disjoint; the others count without amplification beside each other, unless independent_samples says it. A bare loss in the
        list is your word that it has its own sample, or order of reports.

    Edge cases:
        ==============================  ======================================================================
        an empty list                   ValueError
        all Gaussian, delta not given   ValueError
        all pure, delta = 0             the sum of the epsilons ("basic")
        delta below the releases' own   ValueError
        epsilon too small for any       delta = 1.0: the statement is true and worthless
        ==============================  ======================================================================

    Reference:
        docs/accounting.md lists the theorems, docs/proofs/composition.md proves what is not in the papers.

    Example:
        >>> from hushvec.accounting import GaussianDP, PureDP, compose
        >>> together = compose([(PureDP(epsilon=0.5), 10)], delta=1e-5)
        >>> round(together.epsilon, 3), together.theorem
        (4.999, 'optimal')
        >>> {one.theorem: round(one.epsilon, 2) for one in together.candidates if one.theorem in ("basic", "advanced")}
        {'basic': 5.0, 'advanced': 10.83}
        >>> compose([GaussianDP(noise_multiplier=4.0)] * 4, delta=1e-5).theorem
        'gaussian'
    """
    return compose_collected(collect(releases, independent_samples=independent_samples), delta=delta, epsilon=epsilon)


def compose_collected(releases: Releases, *, delta: float | None, epsilon: float | None) -> Composition:
    """`compose` for releases that have been checked."""
    validate.rounding_to_nearest()
    if delta is not None and epsilon is not None:
        raise ValueError(f"delta and epsilon must not both be given, got delta = {delta!r} and epsilon = {epsilon!r}")
    _require_extra(releases)
    if epsilon is not None:
        return _smallest_delta(releases, validate.positive("epsilon", epsilon))
    return _smallest_epsilon(releases, _default_delta(releases) if delta is None else _checked_delta(delta))


def _checked_delta(value: Any) -> float:
    converted = validate.number("delta", value)
    if not 0 <= converted < 1:
        raise ValueError(f"delta must be >= 0 and < 1, got {converted!r}")
    return converted


def _smallest_epsilon(releases: Releases, delta: float) -> Composition:
    if releases.failure > delta:
        raise ValueError(f"delta must be >= {releases.failure!r}, which the releases spend themselves, got {delta!r}")
    if delta <= releases.failure and not releases.are_pure:
        kinds = ", ".join(sorted({type(loss).__name__ for loss, _ in releases.counts if loss.pure_epsilon == math.inf}))
        raise ValueError(f"delta must be > {releases.failure!r} for {kinds}, got {delta!r}")
    candidates = []
    for theorem in THEOREMS:
        note = theorem.obstacle(releases)
        bound = math.inf if note else theorem.epsilon(releases, delta)
        note = note or ("" if bound < math.inf else "no finite epsilon at this delta")
        candidates.append(
            Candidate(theorem=theorem.name, epsilon=bound, delta=delta, reference=theorem.reference, note=note)
        )
    return _composition(releases, sorted(candidates, key=lambda one: (one.epsilon, one.note != "")))


def _smallest_delta(releases: Releases, epsilon: float) -> Composition:
    candidates = []
    for theorem in THEOREMS:
        note = theorem.obstacle(releases)
        bound = 1.0 if note else theorem.delta(releases, epsilon)
        note = note or ("" if bound < 1 else "no delta below 1 at this epsilon")
        candidates.append(
            Candidate(theorem=theorem.name, epsilon=epsilon, delta=bound, reference=theorem.reference, note=note)
        )
    return _composition(releases, sorted(candidates, key=lambda one: (one.delta, one.note != "")))


def _composition(releases: Releases, candidates: list[Candidate]) -> Composition:
    best = candidates[0]
    return Composition(
        epsilon=best.epsilon,
        delta=best.delta,
        theorem=best.theorem,
        adjacency=releases.adjacency,
        candidates=tuple(candidates),
        releases=releases.number,
        unamplified=releases.unamplified,
    )


def _default_delta(releases: Releases) -> float:
    """The sum of the releases' own deltas."""
    if not releases.are_pure:
        kinds = ", ".join(sorted({type(loss).__name__ for loss, _ in releases.counts if loss.pure_epsilon == math.inf}))
        raise ValueError(f"delta must be given: {kinds} has an epsilon for each delta > 0, and none for delta = 0")
    spent = sum_up((loss.failure_delta, count) for loss, count in releases.counts)
    if spent >= 1:
        raise ValueError(f"delta must be < 1, and the deltas of the releases add up to {spent!r}")
    return spent


def _require_extra(releases: Releases) -> None:
    if releases.of_kind(PoissonSampledGaussianDP) and not releases.only and not extra.is_installed():
        raise MissingExtraError("composition of Poisson-sampled releases", extra.EXTRA)
