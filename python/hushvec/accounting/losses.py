"""Privacy losses: the cost of one release in epsilon and delta, rho and Renyi DP.

A loss is a statement about a mechanism under one adjacency. docs/accounting.md lists the kinds, and which theorem is behind each.

`adjacency` says which inputs are neighbors: "replace-one" (one person's data is replaced by any other) or "add-remove" (a person
is there or not). Noise multipliers are relative to the sensitivity **under that adjacency**: vectors of norm at most C in a sum
have sensitivity C under add-remove and 2 C under replace-one. Nothing here converts one adjacency into the other.

delta, epsilon, rho and rdp are never below the exact values.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hushvec._util import rounding, validate
from hushvec.accounting import closed_forms, poisson, shuffling
from hushvec.accounting.discrete import discrete_gaussian_delta, is_summed
from hushvec.noise.calibration import gaussian_delta, gaussian_epsilon

ADJACENCIES = ("replace-one", "add-remove")

# A field whose name a method of PrivacyLoss has already taken ends in this; the constructor's argument does not.
_BOUND = "_bound"


@cache
def _arguments(kind: type[PrivacyLoss]) -> tuple[tuple[str, str], ...]:
    """The constructor's arguments of a kind of loss, each with the field that holds it."""
    return tuple((field.name.removesuffix(_BOUND), field.name) for field in fields(kind))


@dataclass(frozen=True, kw_only=True, repr=False)
class PrivacyLoss(ABC):
    """Base of all losses. All take `adjacency`, "replace-one" or "add-remove"; see the module for what it means."""

    name: ClassVar[str]

    adjacency: str = "replace-one"

    def __post_init__(self) -> None:
        validate.choice("adjacency", self.adjacency, ADJACENCIES)

    @property
    def arguments(self) -> dict[str, Any]:
        """The constructor's arguments: ``type(loss)(**loss.arguments) == loss``."""
        return {argument: getattr(self, field) for argument, field in _arguments(type(self))}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.arguments.items())})"

    def delta(self, epsilon: float) -> float:
        """The smallest delta known for which a release is (epsilon, delta)-DP, rounded up; epsilon >= 0 and finite."""
        return min(1.0, self._delta(validate.not_negative("epsilon", epsilon)))

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon known for which a release is (epsilon, delta)-DP, rounded up.

        ValueError where no finite epsilon goes with this delta: it must be < 1, >= 0 for pure guarantees and > 0 for the rest.
        """
        checked = validate.number("delta", delta)
        if not (0 <= checked < 1 and (checked > 0 if self.pure_epsilon == math.inf else checked >= self.failure_delta)):
            rule = "> 0" if self.pure_epsilon == math.inf else f">= {self.failure_delta!r}"
            raise ValueError(f"delta must be {rule} and < 1 for {type(self).__name__}, got {checked!r}")
        return self._epsilon(checked)

    @property
    def rho(self) -> float:
        """The loss in zero-concentrated DP: every Renyi divergence of order a is at most rho a. math.inf if there is none."""
        return math.inf

    def rdp(self, order: float) -> float:
        """The Renyi divergence bound of an order > 1; math.inf if there is none. Sampled losses need hushvec[accounting]."""
        checked = validate.number("order", order)
        if checked <= 1:
            raise ValueError(f"order must be > 1, got {checked!r}")
        return float(self.rdp_curve(np.array([checked]))[0])

    def rdp_curve(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """`rdp` of many orders > 1 at once, which are not checked. What rho gives, unless a loss knows better."""
        return closed_forms.linear(self.rho, orders)

    @abstractmethod
    def _delta(self, epsilon: float) -> float: ...

    def _epsilon(self, delta: float) -> float:
        return rounding.smallest(lambda epsilon: self.delta(epsilon) <= delta, self.pure_epsilon)

    @property
    def pure_epsilon(self) -> float:
        """The epsilon at delta = 0 (for ApproximateDP, at its delta); math.inf if there is none."""
        return math.inf

    @property
    def total_variation(self) -> float:
        """The largest difference between the probabilities of an event for two neighbors, rounded up: delta at epsilon = 0."""
        return self.delta(0.0)

    @property
    def unamplified(self) -> PrivacyLoss:
        """The loss for any given sample or order: another one than itself where sampling or shuffling lowers it."""
        return self

    @property
    def failure_delta(self) -> float:
        """The probability that the guarantee fails: 0 for all but ApproximateDP."""
        return 0.0

    def _store(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _store_positive(self, *names: str) -> None:
        self._store(**{name: validate.positive(name.removesuffix(_BOUND), getattr(self, name)) for name in names})


class OfPureEpsilon(PrivacyLoss):
    """rho and the Renyi curve of the worst mechanism with the same epsilon at delta = 0 and the same total variation."""

    @property
    def rho(self) -> float:
        return closed_forms.pure_rho(self.pure_epsilon, self.total_variation)

    def rdp_curve(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        return closed_forms.pure_rdp(self.pure_epsilon, self.total_variation, orders)


@dataclass(frozen=True, kw_only=True, repr=False, init=False)
class OneEpsilonLoss(OfPureEpsilon):
    """Losses with a pure epsilon: those of the worst epsilon-DP mechanism, unless a class knows better."""

    epsilon_bound: float

    def __init__(self, *, epsilon: float, adjacency: str = "replace-one") -> None:
        self._store(epsilon_bound=epsilon, adjacency=adjacency)
        self.__post_init__()

    def __post_init__(self) -> None:
        super().__post_init__()
        self._store_positive("epsilon_bound")

    @property
    def pure_epsilon(self) -> float:
        return self.epsilon_bound

    @property
    def total_variation(self) -> float:
        return closed_forms.variation_of(self.epsilon_bound)


@dataclass(frozen=True, kw_only=True, repr=False, init=False)
class PureDP(OneEpsilonLoss):
    """epsilon-DP.

    Args:
        epsilon: > 0.
        total_variation: > 0, at least the difference between the probabilities of any event for two neighbors, where more is known
            than epsilon: (e^t - 1)/(e^t + k - 1) for randomized response among k. None: tanh(t/2), which no t-DP mechanism exceeds.

    Guarantees:
        Those of the worst mechanism of this t = epsilon and this total variation v, whose privacy loss is t, 0 or -t: delta(x) = v
        (e^t - e^x)/(e^t - 1). It is randomized response among k labels, and on one bit where v is tanh(t/2); rho is t tanh(t/2)
        there, below the usual t^2/2.

    Reference:
        Kairouz, Oh, Viswanath (2015); with a total variation Ghazi and Issa, "Total variation meets differential privacy" (2024);
        docs/proofs/composition.md and docs/proofs/zcdp.md.

    Example:
        >>> from hushvec.accounting import PureDP
        >>> loss = PureDP(epsilon=1.0)
        >>> loss.epsilon(0.0), round(loss.epsilon(0.1), 4), round(loss.rho, 4)
        (1.0, 0.8529, 0.4621)
        >>> round(PureDP(epsilon=1.0, total_variation=0.01).delta(0.5), 5)
        0.00622
    """

    name = "pure"
    total_variation_bound: float

    def __init__(self, *, epsilon: float, total_variation: float | None = None, adjacency: str = "replace-one") -> None:
        self._store(total_variation_bound=total_variation)
        super().__init__(epsilon=epsilon, adjacency=adjacency)

    def __post_init__(self) -> None:
        super().__post_init__()
        most, given = closed_forms.variation_of(self.epsilon_bound), self.total_variation_bound
        self._store(total_variation_bound=most if given is None else min(most, validate.positive("total_variation", given)))

    @property
    def total_variation(self) -> float:
        return self.total_variation_bound

    def _delta(self, epsilon: float) -> float:
        return closed_forms.pure_delta(self.epsilon_bound, self.total_variation, epsilon)


@dataclass(frozen=True, kw_only=True, repr=False, init=False)
class ApproximateDP(PrivacyLoss):
    """(epsilon, delta)-DP.

    Args:
        epsilon, delta: > 0, and in [0, 1).

    Guarantees:
        The worst such mechanism gives everything away with probability delta and is randomized response otherwise
        (Kairouz, Oh, Viswanath 2015).

    Example:
        >>> from hushvec.accounting import ApproximateDP
        >>> loss = ApproximateDP(epsilon=1.0, delta=1e-6)
        >>> loss.epsilon(1e-6), loss.delta(1.0), loss.rho
        (1.0, 1e-06, inf)
    """

    name = "approximate"
    epsilon_bound: float
    delta_bound: float

    def __init__(self, *, epsilon: float, delta: float, adjacency: str = "replace-one") -> None:
        self._store(epsilon_bound=epsilon, delta_bound=delta, adjacency=adjacency)
        self.__post_init__()

    def __post_init__(self) -> None:
        super().__post_init__()
        self._store_positive("epsilon_bound")
        self._store(delta_bound=validate.delta(self.delta_bound, zero_allowed=True))

    def _delta(self, epsilon: float) -> float:
        if epsilon >= self.epsilon_bound:
            return self.delta_bound
        promised = closed_forms.pure_delta(self.epsilon_bound, closed_forms.variation_of(self.epsilon_bound), epsilon)
        return closed_forms.with_failure(promised, self.delta_bound)

    @property
    def pure_epsilon(self) -> float:
        return self.epsilon_bound

    @property
    def failure_delta(self) -> float:
        return self.delta_bound


@dataclass(frozen=True, kw_only=True, repr=False, init=False)
class BoundedRangeDP(OneEpsilonLoss):
    """The privacy loss over all outcomes lies in an interval of length epsilon: the exponential mechanism, one Gumbel pick.

    Args:
        epsilon: > 0, the length of the interval.

    Guarantees:
        It is epsilon-DP, and better: delta(x) = (1 - e^((x - epsilon)/2))^2/(1 - e^-epsilon), rho = epsilon^2/8
        (docs/proofs/zcdp.md).

    Reference:
        Durfee and Rogers (2019), bounded range; Dong, Durfee, Rogers (2020), its profile; Cesar and Rogers (2021), its rho.

    Example:
        >>> from hushvec.accounting import BoundedRangeDP
        >>> loss = BoundedRangeDP(epsilon=1.0)
        >>> loss.epsilon(0.0), round(loss.epsilon(0.1), 4), round(loss.rho, 4)
        (1.0, 0.4208, 0.125)
    """

    name = "bounded-range"

    def _delta(self, epsilon: float) -> float:
        if epsilon >= self.epsilon_bound:
            return 0.0
        return rounding.up(math.expm1((epsilon - self.epsilon_bound) / 2) ** 2 / -math.expm1(-self.epsilon_bound), units=16)

    @property
    def rho(self) -> float:
        return min(rounding.up(self.epsilon_bound**2 / 8, units=2), super().rho)

    @property
    def total_variation(self) -> float:
        return self.delta(0.0)

    def rdp_curve(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.minimum(closed_forms.linear(self.rho, orders), super().rdp_curve(orders))


@dataclass(frozen=True, kw_only=True, repr=False)
class ZeroConcentratedDP(PrivacyLoss):
    """rho-zCDP: every Renyi divergence of order a is at most rho a.

    Args:
        rho: > 0.

    Guarantees:
        delta(x) is the infimum over a > 1 of e^((a - 1)(rho a - x)) (1 - 1/a)^a/(a - 1): smaller than what
        epsilon = rho + 2 sqrt(rho ln(1/delta)) says.

    Reference:
        Bun and Steinke (2016), definition 1.1; Canonne, Kamath, Steinke (2020), corollary 13.

    Example:
        >>> from hushvec.accounting import ZeroConcentratedDP
        >>> round(ZeroConcentratedDP(rho=0.1).epsilon(1e-6), 3)         # rho + 2 sqrt(rho ln(1/delta)) is 2.451
        2.142
    """

    name = "zcdp"
    rho_bound: float

    def __init__(self, *, rho: float, adjacency: str = "replace-one") -> None:
        self._store(rho_bound=rho, adjacency=adjacency)
        self.__post_init__()

    def __post_init__(self) -> None:
        super().__post_init__()
        self._store_positive("rho_bound")

    def _delta(self, epsilon: float) -> float:
        return closed_forms.zcdp_delta(self.rho_bound, epsilon)

    def _epsilon(self, delta: float) -> float:
        return closed_forms.zcdp_epsilon(self.rho_bound, delta)

    @property
    def rho(self) -> float:
        return self.rho_bound


@dataclass(frozen=True, kw_only=True, repr=False, init=False)
class DiscreteGaussianDP(ZeroConcentratedDP):
    """Discrete Gaussian noise, `hushvec.discrete_gaussian`, on whole numbers of bounded L2 sensitivity.

    Args:
        sigma: the parameter of the noise, > 0.
        sensitivity: how far the numbers can move in L2 under this adjacency, >= 1.
        coordinates: how many numbers there are.

    Guarantees:
        rho = sensitivity^2 / (2 sigma^2). delta and epsilon are never above what rho gives. For one number and sigma up to 512 they
        are the exact profile, rounded up; otherwise close to `GaussianDP` where sigma^2 is far above coordinates.

    Reference:
        Canonne, Kamath, Steinke (2020), theorems 7 and 14; docs/proofs/discrete_gaussian.md.

    Example:
        >>> from hushvec.accounting import DiscreteGaussianDP
        >>> loss = DiscreteGaussianDP(sigma=8.0, sensitivity=2)
        >>> round(loss.epsilon(1e-5), 4), loss.rho
        (0.9269, 0.03125)
    """

    name = "discrete-gaussian"
    sigma: float
    sensitivity: float
    coordinates: int

    def __init__(self, *, sigma: float, sensitivity: float = 1.0, coordinates: int = 1, adjacency: str = "replace-one") -> None:
        self._store(sigma=sigma, sensitivity=sensitivity, adjacency=adjacency)
        self._store_positive("sigma", "sensitivity")
        if self.sensitivity < 1:
            raise ValueError(f"sensitivity must be >= 1 for whole numbers, got {self.sensitivity!r}")
        rho = Fraction(self.sensitivity) ** 2 / (2 * Fraction(self.sigma) ** 2)
        self._store(coordinates=validate.whole_number("coordinates", coordinates, at_least=1), rho_bound=rounding.fraction_up(rho))
        if self.rho_bound == math.inf:
            raise ValueError(f"sigma must be large enough for a finite rho, got {self.sigma!r}")
        self.__post_init__()

    @property
    def arguments(self) -> dict[str, Any]:
        return {name: value for name, value in super().arguments.items() if name != "rho"}

    @property
    def is_summed(self) -> bool:
        """Whether its profile is computed from the law of the noise itself, and not by way of the Gaussian's."""
        return is_summed(self.sigma, self.coordinates)

    def _delta(self, epsilon: float) -> float:
        return min(super()._delta(epsilon), discrete_gaussian_delta(epsilon, self.sigma, self.sensitivity, self.coordinates))

    def _epsilon(self, delta: float) -> float:
        return rounding.smallest(lambda epsilon: self.delta(epsilon) <= delta, super()._epsilon(delta))


@dataclass(frozen=True, kw_only=True, repr=False)
class NoiseLoss(PrivacyLoss):
    noise_multiplier: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self._store_positive("noise_multiplier")


@dataclass(frozen=True, kw_only=True, repr=False)
class GaussianDP(NoiseLoss):
    """Gaussian noise on something of bounded L2 sensitivity, in any dimension.

    Args:
        noise_multiplier: sigma divided by the L2 sensitivity under this adjacency; > 0.

    Guarantees:
        delta and epsilon are the exact profile, never below it (`hushvec.noise.calibration`). rho = 1/(2 noise_multiplier^2).

    Reference:
        Balle and Wang (2018), theorem 8; Bun and Steinke (2016), proposition 1.6.

    Example:
        >>> from hushvec.accounting import GaussianDP
        >>> loss = GaussianDP(noise_multiplier=3.7307)
        >>> round(loss.epsilon(1e-5), 3), round(loss.rho, 5)
        (1.0, 0.03592)
    """

    name = "gaussian"

    def _delta(self, epsilon: float) -> float:
        return float(gaussian_delta(epsilon, self.noise_multiplier))

    def _epsilon(self, delta: float) -> float:
        return float(gaussian_epsilon(delta, self.noise_multiplier))

    @property
    def rho(self) -> float:
        return closed_forms.gaussian_rho(self.noise_multiplier)


def require_finite_epsilon(noise_multiplier: float) -> None:
    if 1 / noise_multiplier == math.inf:
        raise ValueError(f"noise_multiplier must be large enough for a finite epsilon, got {noise_multiplier!r}")


@dataclass(frozen=True, kw_only=True, repr=False)
class LaplaceDP(NoiseLoss, OfPureEpsilon):
    """Laplace noise on **one** number of bounded sensitivity.

    Args:
        noise_multiplier: scale divided by the sensitivity under this adjacency; > 0. The pure epsilon is its inverse.

    Guarantees:
        With t = 1/noise_multiplier: delta(x) = 1 - e^((x - t)/2) for x < t. For noise on several coordinates of
        bounded L1 sensitivity the profile of one coordinate is not claimed; take ``PureDP(epsilon=t)``.

    Reference:
        Balle, Barthe, Gaboardi (2018), theorem 3; Mironov (2017), proposition 6.

    Example:
        >>> from hushvec.accounting import LaplaceDP
        >>> loss = LaplaceDP(noise_multiplier=1.0)
        >>> loss.epsilon(0.0), round(loss.epsilon(0.1), 4), round(loss.rdp(2.0), 4)
        (1.0, 0.7893, 0.6191)
    """

    name = "laplace"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_finite_epsilon(self.noise_multiplier)

    def _delta(self, epsilon: float) -> float:
        if epsilon >= self.pure_epsilon:
            return 0.0
        return rounding.up(-math.expm1((epsilon - self.pure_epsilon) / 2))

    @property
    def pure_epsilon(self) -> float:
        nearest = 1 / self.noise_multiplier
        return nearest if math.frexp(self.noise_multiplier)[0] == 0.5 else rounding.next_up(nearest)

    def rdp_curve(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.minimum(closed_forms.laplace_rdp(self.pure_epsilon, orders), super().rdp_curve(orders))


@dataclass(frozen=True, kw_only=True, repr=False)
class SampledNoiseLoss(NoiseLoss):
    sampling_probability: float
    adjacency: str = "add-remove"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._store_positive("sampling_probability")
        if self.sampling_probability > 1:
            raise ValueError(f"sampling_probability must be > 0 and <= 1, got {self.sampling_probability!r}")


@dataclass(frozen=True, kw_only=True, repr=False)
class PoissonSampledGaussianDP(SampledNoiseLoss):
    """Gaussian noise on a sum over a random subset that includes each person with the same probability, independently (DP-SGD).

    Args:
        noise_multiplier: sigma divided by the L2 sensitivity **under this adjacency**, > 0. For vectors of norm at most C that is
            sigma/C under add-remove and sigma/(2 C) under replace-one.
        sampling_probability: in (0, 1]; with 1 it is `GaussianDP`.
        adjacency: "add-remove" unless said otherwise, which is what noise multipliers of DP-SGD refer to.

    Guarantees:
        delta and epsilon of one release are exact, never below. Shuffling and fixed-size batches are not Poisson sampling: this
        loss is not theirs.

    Reference:
        Add-remove: Balle, Barthe, Gaboardi (2018), theorem 8; Mironov, Talwar, Zhang (2019). Replace-one:
        docs/proofs/subsampling.md.

    Example:
        >>> from hushvec.accounting import PoissonSampledGaussianDP
        >>> loss = PoissonSampledGaussianDP(noise_multiplier=1.0, sampling_probability=0.01)
        >>> round(loss.epsilon(1e-5), 4)
        0.1995
    """

    name = "poisson-gaussian"

    def _delta(self, epsilon: float) -> float:
        profile = poisson.add_remove_delta if self.adjacency == "add-remove" else poisson.replace_one_delta
        unsampled = float(gaussian_delta(epsilon, self.noise_multiplier))
        return min(unsampled, profile(self.noise_multiplier, self.sampling_probability, epsilon))

    @property
    def unamplified(self) -> PrivacyLoss:
        return self if self.sampling_probability == 1 else GaussianDP(noise_multiplier=self.noise_multiplier, adjacency=self.adjacency)

    @property
    def rho(self) -> float:
        """The rho of the Gaussian without sampling: it holds, and no smaller one does for all orders."""
        return closed_forms.gaussian_rho(self.noise_multiplier)

    def rdp_curve(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        unsampled = super().rdp_curve(orders)
        curve = poisson.add_remove_rdp if self.adjacency == "add-remove" else poisson.replace_one_rdp
        return np.minimum(unsampled, curve(self.noise_multiplier, self.sampling_probability, orders))


@dataclass(frozen=True, kw_only=True, repr=False)
class PoissonSampledLaplaceDP(SampledNoiseLoss, OfPureEpsilon):
    """Laplace noise on one number that a random subset gives, which includes each person with the same probability, independently.

    Args:
        noise_multiplier: scale divided by the sensitivity, > 0, as in `LaplaceDP`.
        sampling_probability: q in (0, 1].
        adjacency: "add-remove", and nothing else.

    Guarantees:
        With t = 1/noise_multiplier: epsilon at delta = 0 is ln(1 + q (e^t - 1)), and delta(x) that of `LaplaceDP` at the y with
        q (e^y - 1) = e^x - 1, times q. Compositions are those of the whole loss. rho and rdp follow from epsilon and delta(0).

    Reference:
        Balle, Barthe, Gaboardi (2018), theorem 8; docs/proofs/subsampling.md.

    Example:
        >>> from hushvec.accounting import PoissonSampledLaplaceDP
        >>> loss = PoissonSampledLaplaceDP(noise_multiplier=0.5, sampling_probability=0.2)
        >>> round(loss.epsilon(0.0), 4), round(loss.epsilon(1e-2), 4)
        (0.8232, 0.7579)
    """

    name = "poisson-laplace"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.adjacency != "add-remove":
            raise ValueError(f"adjacency must be 'add-remove' for PoissonSampledLaplaceDP, got {self.adjacency!r}")
        require_finite_epsilon(self.noise_multiplier)

    @property
    def unamplified(self) -> LaplaceDP:
        return LaplaceDP(noise_multiplier=self.noise_multiplier, adjacency=self.adjacency)

    def _delta(self, epsilon: float) -> float:
        unsampled = poisson.unamplified_epsilon(self.sampling_probability, epsilon)
        return rounding.up(self.sampling_probability * self.unamplified.delta(unsampled))

    @property
    def pure_epsilon(self) -> float:
        return poisson.amplified_epsilon(self.unamplified.pure_epsilon, self.sampling_probability)


@dataclass(frozen=True, kw_only=True, repr=False, init=False)
class Shuffled(OneEpsilonLoss):
    """Local reports of n people, one each, seen only after a shuffler has put them in random order.

    Args:
        loss: PureDP of one report, or an object whose `loss` is that (a mechanism, a receipt).
        n: >= 1, how many people's reports are shuffled together. Only people who follow the protocol count.
        epsilon: > 0, of one report: instead of `loss`.
        adjacency: "replace-one", and nothing else.

    Guarantees:
        delta and epsilon hold against an observer who sees only the output of an honest shuffler: the reports in uniformly random
        order, without names, times or anything else that tells them apart; before the shuffler only the local guarantee holds.
        Several batches compose only with fresh reports of everyone and a fresh order for each. All n people use the same local
        randomizer, which may be any of this epsilon; or they are asked in random order, each by a randomizer that may depend on the
        answers so far but not on who is asked. Both numbers are never below the exact profile of the pair in
        docs/proofs/shuffling.md. delta = 0, rho and rdp are those of one report.

    Edge cases:
        Under add-remove it is refused: the number of reports tells whether a person is there. Where absent people send the report of
        a fixed input, this loss covers leaving. Above n = 2^30, n counts in the closed form alone, and as 2^30 otherwise.

    Reference:
        Feldman, McMillan, Talwar, "Hiding Among the Clones" (2021); docs/proofs/shuffling.md, whose claim 1 is the pair used here.

    Example:
        >>> from hushvec.accounting import PureDP, Shuffled
        >>> loss = Shuffled(PureDP(epsilon=8.0), 1_000_000)
        >>> round(loss.epsilon(1e-6), 4), loss.epsilon(0.0)
        (0.3037, 8.0)
    """

    name = "shuffled"
    n: int

    def __init__(self, loss: Any = None, n: Any = None, *, epsilon: float | None = None, adjacency: str | None = None) -> None:
        if loss is not None and epsilon is not None:
            raise ValueError(f"loss and epsilon must not both be given, got {loss!r:.80} and {epsilon!r}")
        if loss is not None:
            report = loss if isinstance(loss, PrivacyLoss) else getattr(loss, "loss", loss)
            one, count = getattr(report, "item", report), getattr(report, "count", 1)  # a receipt's, of several answers of a person
            if not isinstance(one, PureDP):
                raise TypeError(f"loss must be PureDP, that of one person's report, got {validate.kind(report)}")
            if adjacency not in (None, one.adjacency):
                raise ValueError(f"adjacency must be that of the loss, {one.adjacency!r}, got {adjacency!r}")
            epsilon, adjacency = rounding.sum_up([(one.epsilon_bound, count)]), one.adjacency
        self._store(epsilon_bound=epsilon, n=n, adjacency=ADJACENCIES[0] if adjacency is None else adjacency)
        self.__post_init__()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.adjacency != "replace-one":
            raise ValueError(
                f"adjacency must be 'replace-one' for Shuffled, as the number of shuffled reports is public, got {self.adjacency!r}"
            )
        self._store(n=validate.whole_number("n", self.n, at_least=1))

    @property
    def unamplified(self) -> PureDP:
        return PureDP(epsilon=self.epsilon_bound, adjacency=self.adjacency)

    def _delta(self, epsilon: float) -> float:
        local = closed_forms.pure_delta(self.epsilon_bound, self.total_variation, epsilon)
        return min(local, shuffling.shuffled_delta(self.epsilon_bound, self.n, epsilon)) if local else local


_KINDS = (
    *(PureDP, ApproximateDP, BoundedRangeDP, ZeroConcentratedDP, DiscreteGaussianDP),
    *(GaussianDP, LaplaceDP, PoissonSampledGaussianDP, PoissonSampledLaplaceDP, Shuffled),
)
LOSSES: dict[str, type[PrivacyLoss]] = {loss.name: loss for loss in _KINDS}

__all__ = [
    "ADJACENCIES", "LOSSES", "ApproximateDP", "BoundedRangeDP", "DiscreteGaussianDP", "GaussianDP", "LaplaceDP",
    "PoissonSampledGaussianDP", "PoissonSampledLaplaceDP", "PrivacyLoss", "PureDP", "Shuffled", "ZeroConcentratedDP",
]
