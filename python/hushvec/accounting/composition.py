"""`compose`: one (epsilon, delta) for many releases and the theorem it comes from; noise for several releases; Poisson sampling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from hushvec._util import validate
from hushvec._util.display import Sheet, at_least, plural, shown
from hushvec._util.rounding import quotient_down, up
from hushvec.accounting import losses
from hushvec.accounting.poisson import EXTRA, amplified_epsilon, has_dp_accounting
from hushvec.accounting.releases import Releases, collect, one
from hushvec.accounting.theorems import THEOREMS
from hushvec.errors import MissingExtraError
from hushvec.noise.calibration import gaussian_sigma

_WHY_UNAMPLIFIED = "count without amplification: their samples are the same, or not known to be independent"


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """The bound of one theorem: epsilon is math.inf (or delta 1.0) where it gives none, and `note` says why.

    `theorem` is "single", "basic", "advanced", "optimal", "gaussian", "zcdp", "rdp" or "pld"; `reference` the paper and the
    theorem in it.
    """

    theorem: str
    epsilon: float
    delta: float
    reference: str
    note: str = ""


@shown
@dataclass(frozen=True, kw_only=True)
class Composition:
    """The cost of releases together. `print` shows what every theorem says, the smallest bound first.

    Args:
        epsilon, delta: all releases together are (epsilon, delta)-DP.
        theorem: the short name of the theorem that says so.
        adjacency, releases: of all of them, and how many there are.
        candidates: what every theorem says, smallest first, those without a bound last.
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
                *((f"{self.unamplified} items {_WHY_UNAMPLIFIED}",) if self.unamplified else ()),
            ),
        )


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

    Raises:
        ValueError: no releases, mixed adjacencies, receipts about different units (one row, one person), or no theorem gives a
            bound; delta is needed where all are Gaussian.

    Guarantees:
        Valid for releases chosen adaptively, each with a loss fixed in advance, and never below what its theorem gives in real
        arithmetic. Where hushvec[accounting] is missing, "pld" is left out, so a bound may be larger.
        Amplified losses compose only if their samples are independent. Receipts of training show it where their `samples` are
        disjoint; the others count without amplification beside each other, unless independent_samples says it. A bare loss in the
        list is your word that it has its own sample, or order of reports.

    Reference:
        docs/accounting.md lists the theorems, docs/proofs/composition.md proves what is not in the papers.

    Example:
        >>> from hushvec.accounting import GaussianDP, PureDP, compose
        >>> together = compose([(PureDP(epsilon=0.5), 10)], delta=1e-5)
        >>> round(together.epsilon, 3), together.theorem
        (4.999, 'optimal')
        >>> compose([GaussianDP(noise_multiplier=4.0)] * 4, delta=1e-5).theorem
        'gaussian'
    """
    return compose_collected(collect(releases, independent_samples=independent_samples), delta=delta, epsilon=epsilon)


def compose_collected(releases: Releases, *, delta: float | None, epsilon: float | None) -> Composition:
    validate.rounding_to_nearest()
    if delta is not None and epsilon is not None:
        raise ValueError(f"delta and epsilon must not both be given, got delta = {delta!r} and epsilon = {epsilon!r}")
    if releases.of_kind(losses.PoissonSampledGaussianDP) and not releases.only and not has_dp_accounting():
        raise MissingExtraError("composition of Poisson-sampled releases", EXTRA)
    if epsilon is not None:
        return _by_all_theorems(releases, delta=1.0, epsilon=validate.positive("epsilon", epsilon))
    if delta is None and not releases.are_pure:
        kinds = _kinds_without_epsilon(releases)
        raise ValueError(f"delta must be given: {kinds} has an epsilon for each delta > 0, and none for delta = 0")
    if delta is None and releases.spent >= 1:
        raise ValueError(f"delta must be < 1, and the deltas of the releases add up to {releases.spent!r}")
    stated = releases.spent if delta is None else validate.number("delta", delta)
    if not 0 <= stated < 1:
        raise ValueError(f"delta must be >= 0 and < 1, got {stated!r}")
    if releases.failure > stated:
        raise ValueError(f"delta must be >= {releases.failure!r}, which the releases spend themselves, got {stated!r}")
    if stated <= releases.failure and not releases.are_pure:
        raise ValueError(f"delta must be > {releases.failure!r} for {_kinds_without_epsilon(releases)}, got {stated!r}")
    return _by_all_theorems(releases, delta=stated, epsilon=None)


def _by_all_theorems(releases: Releases, *, delta: float, epsilon: float | None) -> Composition:
    candidates = []
    for theorem in THEOREMS:
        note, found, spent = theorem.obstacle(releases), math.inf, 1.0
        if epsilon is None:
            found, spent = found if note else theorem.epsilon(releases, delta), delta
            note = note or ("" if found < math.inf else "no finite epsilon at this delta")
        else:
            found, spent = epsilon, spent if note else theorem.delta(releases, epsilon)
            note = note or ("" if spent < 1 else "no delta below 1 at this epsilon")
        candidates.append(Candidate(theorem=theorem.name, epsilon=found, delta=spent, reference=theorem.reference, note=note))
    candidates.sort(key=lambda one: (one.epsilon, one.delta, one.note != ""))
    best = candidates[0]
    return Composition(
        epsilon=best.epsilon, delta=best.delta, theorem=best.theorem, adjacency=releases.adjacency, candidates=tuple(candidates),
        releases=releases.number, unamplified=releases.unamplified,
    )


def _kinds_without_epsilon(releases: Releases) -> str:
    return ", ".join(sorted({type(loss).__name__ for loss, _ in releases.counts if loss.pure_epsilon == math.inf}))


COMPOSITIONS = ("joint", "basic")


def gaussian_sigma_for(
    n_releases: Any, epsilon: float, delta: float, sensitivity: float = 1.0, *, composition: str = "joint"
) -> float:
    """sigma per release with which n Gaussian releases together are (epsilon, delta)-DP, in the unit of sensitivity.

    Args:
        n_releases: K >= 1; public.
        epsilon, delta: > 0, and in (0, 1), for all releases together.
        sensitivity: L2 sensitivity of one release, in the unit of sigma.
        composition: "joint": the releases are one Gaussian release of sensitivity * sqrt(K), which is exact. "basic": every
            release gets (epsilon/K, delta/K), as older receipts do; sigma is larger.

    Guarantees:
        As `hushvec.gaussian_sigma`, which K = 1 gives: never below the exact value.

    Reference:
        Dong, Roth, Su (2022), corollary 3.3; Balle and Wang (2018), theorem 8.

    Example:
        >>> from hushvec.accounting import gaussian_sigma_for
        >>> round(gaussian_sigma_for(4, 16.0, 1e-3, 3.0), 4), round(gaussian_sigma_for(4, 16.0, 1e-3, 3.0, composition="basic"), 4)
        (1.7316, 2.7196)
    """
    validate.rounding_to_nearest()
    count = validate.whole_number("n_releases", n_releases, at_least=1)
    epsilon, delta = validate.positive("epsilon", epsilon), validate.delta(delta)
    sensitivity = validate.positive("sensitivity", sensitivity)
    if validate.choice("composition", composition, COMPOSITIONS) == "joint":
        together = sensitivity * math.sqrt(count)
        exact = math.isqrt(count) ** 2 == count and math.log2(math.isqrt(count)).is_integer()
        return float(gaussian_sigma(epsilon, delta, together if exact else up(together, units=3)))
    return float(gaussian_sigma(quotient_down(epsilon, count), quotient_down(delta, count), sensitivity))


def amplify_by_poisson_sampling(release: Any, sampling_probability: float) -> losses.PrivacyLoss:
    """Loss of a mechanism that runs on a Poisson sample, which includes every person with this probability, independently.

    Args:
        release: the loss of the mechanism on the sample, or an object with a `loss`; add-remove, and not sampled already.
        sampling_probability: q in (0, 1]. It must not depend on the data, and who was sampled must stay secret.

    Returns:
        PoissonSampledGaussianDP for GaussianDP, PoissonSampledLaplaceDP for LaplaceDP. PureDP(ln(1 + q (e^epsilon - 1))), with q
        times the total variation, for all else that is epsilon-DP, and ApproximateDP with that epsilon and q delta for what is
        (epsilon, delta)-DP, rounded up. q = 1 returns an equal guarantee.

    Reference:
        Balle, Barthe, Gaboardi, "Privacy Amplification by Subsampling" (2018), theorem 8.

    Example:
        >>> from hushvec.accounting import PureDP, amplify_by_poisson_sampling
        >>> loss = amplify_by_poisson_sampling(PureDP(epsilon=1.0, adjacency="add-remove"), 0.01)
        >>> round(loss.epsilon(0.0), 5)
        0.01704
    """
    validate.rounding_to_nearest()
    loss, count = one("release", release, adjacency="add-remove")
    q = validate.positive("sampling_probability", sampling_probability)
    if q > 1:
        raise ValueError(f"sampling_probability must be > 0 and <= 1, got {q!r}")
    if count != 1:
        raise ValueError(f"release must be one release, got {count}")
    if loss.adjacency != "add-remove":
        raise ValueError(f"adjacency must be 'add-remove' for amplification by Poisson sampling, got {loss.adjacency!r}")
    if isinstance(loss, (losses.GaussianDP, losses.LaplaceDP)):
        kind = losses.PoissonSampledGaussianDP if isinstance(loss, losses.GaussianDP) else losses.PoissonSampledLaplaceDP
        return kind(noise_multiplier=loss.noise_multiplier, sampling_probability=q)
    if isinstance(loss, (losses.ZeroConcentratedDP, losses.PoissonSampledGaussianDP, losses.PoissonSampledLaplaceDP)):
        raise TypeError(f"release must have an epsilon of its own or be GaussianDP, got {type(loss).__name__}")
    epsilon = amplified_epsilon(loss.pure_epsilon, q)
    if isinstance(loss, losses.ApproximateDP) and loss.delta_bound > 0:
        return losses.ApproximateDP(epsilon=epsilon, delta=up(q * loss.delta_bound, units=2), adjacency="add-remove")
    return losses.PureDP(epsilon=epsilon, total_variation=up(q * loss.total_variation), adjacency="add-remove")
