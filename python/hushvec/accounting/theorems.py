"""One composition theorem a class: what it applies to, and the smallest epsilon or delta it gives.

With probability at most `failure` a guarantee fails, and else the `core` losses hold (docs/proofs/composition.md, "Failures").
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hushvec._util.rounding import UNIT, down, smallest, sum_up, total, up
from hushvec.accounting import losses, optimal, pld
from hushvec.accounting.closed_forms import ORDERS, rdp_delta, rdp_epsilon, with_failure, zcdp_delta, zcdp_epsilon
from hushvec.accounting.discrete import FAR_SHARE, SMALLEST_FAR, gaussian_terms
from hushvec.accounting.poisson import EXTRA, has_dp_accounting
from hushvec.accounting.releases import Releases, coarsened, gaussian_part
from hushvec.noise.calibration import gaussian_delta, gaussian_epsilon

# Most sampled losses solved for epsilon one by one (1 ms each, often), Renyi curves (20 ms each), and grids (0.1 s each).
MOST_INVERTED = 20
MOST_CURVES = 100
MOST_GRIDS = 32


class Theorem(ABC):
    """A way to bound a composition."""

    name: ClassVar[str]
    reference: ClassVar[str]

    @abstractmethod
    def obstacle(self, releases: Releases) -> str:
        """Why the theorem says nothing about these releases; an empty text if it does."""

    @abstractmethod
    def epsilon(self, releases: Releases, delta: float) -> float:
        """Smallest epsilon at delta, rounded up; math.inf if there is none."""

    @abstractmethod
    def delta(self, releases: Releases, epsilon: float) -> float:
        """Smallest delta at epsilon, rounded up; 1.0 if there is none."""


class CoreTheorem(Theorem):
    """A theorem about the core losses alone; failures are added here."""

    def epsilon(self, releases: Releases, delta: float) -> float:
        failure = releases.failure
        if failure > delta:
            return math.inf
        left = max(0.0, down((delta - failure) / (1 - failure), units=16)) if failure else delta
        return self.core_epsilon(releases.core, left)

    def delta(self, releases: Releases, epsilon: float) -> float:
        return with_failure(self.core_delta(releases.core, epsilon), releases.failure)

    @abstractmethod
    def core_epsilon(self, core: Releases, delta: float) -> float: ...

    @abstractmethod
    def core_delta(self, core: Releases, epsilon: float) -> float: ...


class ContinuousTheorem(CoreTheorem):
    """A theorem that knows Gaussian noise, and that on whole numbers by it: docs/proofs/discrete_gaussian.md, claim 4."""

    def core_epsilon(self, core: Releases, delta: float) -> float:
        if not core.discrete:
            return self.continuous_epsilon(core, delta)
        far = FAR_SHARE * delta
        shift, factor = gaussian_terms(core.discrete, far) if far else (0.0, math.inf)
        left = down((delta - far) / factor)
        return up(shift + self.continuous_epsilon(core.continuous, left)) if left > 0 else math.inf

    def core_delta(self, core: Releases, epsilon: float) -> float:
        if not core.discrete:
            return self.continuous_delta(core, epsilon)
        far = max(SMALLEST_FAR, FAR_SHARE * self.continuous_delta(core.continuous, epsilon))
        shift, factor = gaussian_terms(core.discrete, far)
        if epsilon <= shift or factor == math.inf:
            return 1.0
        return min(1.0, up(factor * self.continuous_delta(core.continuous, down(epsilon - shift, of=epsilon)) + far))

    @abstractmethod
    def continuous_epsilon(self, core: Releases, delta: float) -> float: ...

    @abstractmethod
    def continuous_delta(self, core: Releases, epsilon: float) -> float: ...


class Single(Theorem):
    """One release: its own profile, no composition."""

    name = "single"
    reference = "the release's own privacy profile"

    def obstacle(self, releases: Releases) -> str:
        return "" if releases.only else "more than one release"

    def epsilon(self, releases: Releases, delta: float) -> float:
        loss = releases.counts[0][0]
        return loss.epsilon(delta) if delta >= loss.failure_delta else math.inf

    def delta(self, releases: Releases, epsilon: float) -> float:
        return releases.counts[0][0].delta(epsilon)


class Basic(Theorem):
    """Epsilons and deltas add up. Losses without an epsilon at delta = 0 share the rest of delta, shuffled ones if it pays."""

    name = "basic"
    reference = "Dwork, McSherry, Nissim, Smith (2006); Dwork and Roth (2014), theorem 3.16"

    def obstacle(self, releases: Releases) -> str:
        many = len(releases.of_kind(losses.PoissonSampledGaussianDP)) > MOST_INVERTED
        return f"more than {MOST_INVERTED} different sampled losses" if many else ""

    def epsilon(self, releases: Releases, delta: float) -> float:
        if releases.spent > delta:
            return math.inf
        alone = self._shared(releases, delta, ())
        return min(alone, self._shared(releases, delta, (losses.Shuffled,))) if _shuffled_share(releases) else alone

    def _shared(self, releases: Releases, delta: float, also: tuple[type[losses.PrivacyLoss], ...]) -> float:
        sharing, fixed = [], []
        for loss, count in releases.counts:
            if loss.pure_epsilon == math.inf or isinstance(loss, also):
                sharing.append((loss, count))
            else:
                fixed.append((loss.pure_epsilon, count))
        if not sharing:
            return sum_up(fixed)
        share = down((delta - releases.spent) / sum(count for _, count in sharing))
        if share <= 0:
            return math.inf
        return sum_up([*fixed, *_epsilons(sharing, share)])

    def delta(self, releases: Releases, epsilon: float) -> float:
        if releases.are_pure:
            if sum_up((loss.pure_epsilon, count) for loss, count in releases.counts) <= epsilon:
                return min(1.0, releases.spent)
            if not _shuffled_share(releases):
                return 1.0
        # Shares are sought on a scale of logarithms, as the smallest deltas are far below 1.
        found = smallest(lambda exponent: self.epsilon(releases, 10.0 ** (exponent - 300)) <= epsilon, 300.0)
        return 1.0 if found == 300.0 else up(10.0 ** (found - 300))


def _shuffled_share(releases: Releases) -> bool:
    """Whether there are shuffled reports, and few enough different ones to solve for their epsilons."""
    return 0 < len(releases.of_kind(losses.Shuffled)) <= MOST_INVERTED


def _epsilons(sharing: list[tuple[losses.PrivacyLoss, int]], share: float) -> list[tuple[float, int]]:
    gaussian = [(loss.noise_multiplier, count) for loss, count in sharing if isinstance(loss, losses.GaussianDP)]
    rest = [(loss.epsilon(share), count) for loss, count in sharing if not isinstance(loss, losses.GaussianDP)]
    if not gaussian:
        return rest
    found = np.asarray(gaussian_epsilon(share, np.array([multiplier for multiplier, _ in gaussian])))
    return rest + list(zip(found.tolist(), (count for _, count in gaussian)))


class Advanced(Theorem):
    """sqrt(2 ln(1/delta') sum epsilon^2) + sum epsilon (e^epsilon - 1), at delta' plus the deltas of the releases."""

    name = "advanced"
    reference = "Dwork, Rothblum, Vadhan (2010), theorem III.3"

    def obstacle(self, releases: Releases) -> str:
        return "" if releases.are_pure else "needs an epsilon of every release"

    def epsilon(self, releases: Releases, delta: float) -> float:
        slack = down(delta - releases.spent, of=delta) if releases.spent else delta
        return advanced_epsilon(*_moments(releases), slack) if slack > 0 else math.inf

    def delta(self, releases: Releases, epsilon: float) -> float:
        squares, drift = _moments(releases)
        distance = down(epsilon - drift, of=epsilon)
        if distance <= 0:
            return 1.0
        return min(1.0, up(releases.spent + up(math.exp(-down(distance * distance / (2 * squares), units=16)))))


def advanced_epsilon(squares: float, drift: float, slack: float) -> float:
    """sqrt(2 ln(1/slack) squares) + drift, rounded up: squares = sum epsilon^2, drift = sum epsilon (e^epsilon - 1)."""
    return up(math.sqrt(-2 * math.log(slack) * squares) + drift, units=16)


def _moments(releases: Releases) -> tuple[float, float]:
    pairs = [(loss.pure_epsilon, count) for loss, count in releases.counts]
    squares = up(total(count * epsilon * epsilon for epsilon, count in pairs))
    if max(epsilon for epsilon, _ in pairs) > 700:
        return squares, math.inf
    return squares, up(total(count * epsilon * math.expm1(epsilon) for epsilon, count in pairs))


class Optimal(CoreTheorem):
    """The exact composition of epsilons, deltas and total variations: the best bound that follows from them alone."""

    name = "optimal"
    reference = "Kairouz, Oh, Viswanath (2015), theorem 3.3; Murtagh and Vadhan (2016), theorem 1.5; Ghazi and Issa (2024)"

    def obstacle(self, releases: Releases) -> str:
        if not releases.are_pure:
            return "needs an epsilon of every release"
        many = max(count for _, count in releases.counts) > optimal.MOST_EQUAL
        return f"more than {optimal.MOST_EQUAL} equal releases" if many else ""

    def core_epsilon(self, core: Releases, delta: float) -> float:
        return optimal.epsilon_of(_groups(core), delta)

    def core_delta(self, core: Releases, epsilon: float) -> float:
        return optimal.delta_of(_groups(core), epsilon)


def _groups(core: Releases) -> optimal.Groups:
    counts: dict[tuple[float, float], int] = {}
    for loss, count in core.counts:
        kind = loss.pure_epsilon, loss.total_variation
        counts[kind] = counts.get(kind, 0) + count
    return tuple((*kind, count) for kind, count in sorted(counts.items()))


class GaussianExact(ContinuousTheorem):
    """k Gaussian releases are one, with 1/s^2 the sum of theirs."""

    name = "gaussian"
    reference = "Dong, Roth, Su (2022), corollary 3.3; Balle and Wang (2018), theorem 8"

    def obstacle(self, releases: Releases) -> str:
        return "" if releases.core.continuous.are_gaussian else "needs Gaussian releases only"

    def continuous_epsilon(self, core: Releases, delta: float) -> float:
        multiplier = joint_multiplier(core)
        return float(gaussian_epsilon(delta, multiplier)) if delta > 0 and multiplier > 0 else math.inf

    def continuous_delta(self, core: Releases, epsilon: float) -> float:
        multiplier = joint_multiplier(core)
        return float(gaussian_delta(epsilon, multiplier)) if multiplier > 0 else 1.0


def joint_multiplier(core: Releases) -> float:
    """Noise multiplier of the one Gaussian that the Gaussian releases are together, rounded down; 0.0 if that is below floats."""
    if core.only:
        return float(core.counts[0][0].noise_multiplier)  # type: ignore[attr-defined]
    return max(0.0, down(1 / math.sqrt(gaussian_part(core))))


class Concentrated(CoreTheorem):
    """rho adds up; then the tight conversion to (epsilon, delta)."""

    name = "zcdp"
    reference = "Bun and Steinke (2016), lemma 1.7; Canonne, Kamath, Steinke (2020), corollary 13"

    def obstacle(self, releases: Releases) -> str:
        return "" if math.isfinite(releases.core.rho) else "a release has no rho"

    def core_epsilon(self, core: Releases, delta: float) -> float:
        return zcdp_epsilon(core.rho, delta) if delta > 0 else math.inf

    def core_delta(self, core: Releases, epsilon: float) -> float:
        return zcdp_delta(core.rho, epsilon)


class Renyi(CoreTheorem):
    """Renyi divergences of one order add up; then the best order."""

    name = "rdp"
    reference = "Mironov (2017), proposition 1; Canonne, Kamath, Steinke (2020), proposition 12"

    def obstacle(self, releases: Releases) -> str:
        if releases.of_kind(losses.PoissonSampledGaussianDP) and not has_dp_accounting():
            return f"needs hushvec[{EXTRA}]"
        return ""

    def core_epsilon(self, core: Releases, delta: float) -> float:
        return rdp_epsilon(ORDERS, _curve(core), delta) if delta > 0 else math.inf

    def core_delta(self, core: Releases, epsilon: float) -> float:
        return rdp_delta(ORDERS, _curve(core), epsilon)


@np.errstate(over="ignore")
def _curve(core: Releases) -> NDArray[np.float64]:
    """Sum of the Renyi divergences at ORDERS. What is linear in the order goes in as one rho."""
    orders = ORDERS
    linear = (losses.GaussianDP, losses.ZeroConcentratedDP)
    rho = total(loss.rho * count for loss, count in core.counts if isinstance(loss, linear))
    curve = up(rho, units=8) * orders
    for loss, count in coarsened(core, (losses.PoissonSampledGaussianDP,), MOST_CURVES).counts:
        if not isinstance(loss, linear):
            curve = curve + count * loss.rdp_curve(orders)
    summed: NDArray[np.float64] = curve * (1 + (16 + len(core.counts)) * UNIT)
    return summed


class LossDistributions(ContinuousTheorem):
    """Privacy loss distributions are convolved on a grid that overstates them; those of Gaussians through dp-accounting."""

    name = "pld"
    reference = "Koskela, Jalko, Honkela (2020); Doroshenko et al. (2022), Connect the Dots; Zhu, Dong, Wang (2022), theorem 10"

    def obstacle(self, releases: Releases) -> str:
        core = releases.core.continuous
        discrete = len(core.of_kind(losses.DiscreteGaussianDP))
        if len(core.of_kind(losses.ZeroConcentratedDP)) > discrete:
            return "a rho alone has no privacy loss distribution"
        if discrete > MOST_GRIDS:
            return f"more than {MOST_GRIDS} different discrete Gaussian losses"
        if core.are_gaussian:
            return "the Gaussian theorem is exact here"
        if all(isinstance(loss, (losses.PureDP, losses.BoundedRangeDP)) for loss, _ in core.counts):
            return "the optimal theorem is exact here"
        if pld.has_too_little_noise(core):
            return "too little Gaussian noise for a grid"
        needing = any(core.of_kind(kind) for kind in (losses.GaussianDP, losses.PoissonSampledGaussianDP, losses.Shuffled))
        if needing and not has_dp_accounting():
            return f"needs hushvec[{EXTRA}]"
        return ""

    def continuous_epsilon(self, core: Releases, delta: float) -> float:
        return pld.epsilon_of(_few(core), delta)

    def continuous_delta(self, core: Releases, epsilon: float) -> float:
        return pld.delta_of(_few(core), epsilon)


def _few(core: Releases) -> Releases:
    return coarsened(core, pld.ON_GRIDS, MOST_GRIDS)


# In the order in which equal bounds are preferred.
_ALL = (Single, Basic, Advanced, Optimal, GaussianExact, Concentrated, Renyi, LossDistributions)
THEOREMS: tuple[Theorem, ...] = tuple(theorem() for theorem in _ALL)
