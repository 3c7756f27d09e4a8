"""Point estimates of epsilon with their standard errors: what samples suggest, where a bound of high confidence proves less.

A bound at confidence 0.999 over everything that was tried lies well below what the same samples estimate, so that a claim can be wrong
by a sixth and never be refuted. An estimate says by how much it looks wrong, and never refutes anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist

from hushvec.noise.calibration import gaussian_epsilon

# An audit is suspicious where an estimate is more than so many of its standard errors above the claim. At 3, a normal estimate of a
# claim that is exactly kept is above it with probability 0.00135; docs/audit.md has the rate measured over all that an audit tries.
SUSPICIOUS_ERRORS = 3.0


@dataclass(frozen=True, kw_only=True)
class EpsilonEstimate:
    """An estimate of the epsilon that the code really has, at the claimed delta.

    Args:
        of: what it was made from: a statistic, the Gaussian curve, or a number of guesses.
        epsilon: the estimate, >= 0.
        standard_error: its standard deviation over the randomness of the samples, from a normal approximation.
    """

    of: str
    epsilon: float
    standard_error: float

    @property
    def low(self) -> float:
        """SUSPICIOUS_ERRORS standard errors below the estimate."""
        return self.epsilon - SUSPICIOUS_ERRORS * self.standard_error


def most_telling(estimates: Iterable[EpsilonEstimate | None]) -> EpsilonEstimate | None:
    """The estimate with the highest lower end; None if there is none."""
    return max((one for one in estimates if one is not None), key=lambda one: one.low, default=None)


def of_event(name: str, likelier: int, other: int, rows: int, delta: float) -> EpsilonEstimate | None:
    """ln((a - delta) / b), half a count added to each of the two; None where a does not exceed delta.

    Args:
        likelier: outputs of x in an event that was fixed before they were drawn, of `rows`.
        other: outputs of x' in it, of `rows`.
    """
    a, b = (_share(count, rows) for count in (likelier, other))
    if a <= delta:
        return None
    variance = a * (1 - a) / (rows * (a - delta) ** 2) + (1 - b) / (rows * b)
    return EpsilonEstimate(of=name, epsilon=max(0.0, math.log((a - delta) / b)), standard_error=math.sqrt(variance))


def of_gaussian_curve(misses: int, alarms: int, rows: int, delta: float) -> EpsilonEstimate | None:
    """Of a Gaussian trade-off curve through the two error rates of one fixed event; None where they are no better than a coin.

    Reference:
        Nasr et al., "Tight auditing of differentially private machine learning" (2023), section 4.
    """
    normal, mu, variance = NormalDist(), 0.0, 0.0
    for count in (misses, alarms):
        rate = _share(count, rows)
        quantile = normal.inv_cdf(rate)
        mu -= quantile
        variance += rate * (1 - rate) / (rows * normal.pdf(quantile) ** 2)
    if mu <= 0:
        return None
    epsilon, above = (float(gaussian_epsilon(delta, 1 / value)) for value in (mu, mu + math.sqrt(variance)))
    return EpsilonEstimate(of="Gaussian curve", epsilon=epsilon, standard_error=above - epsilon)


def of_guesses(records: int, guesses: int, right: int, delta: float) -> EpsilonEstimate | None:
    """ln(p / (1 - p)) from the p for which so many guesses are right on average, p r + (1 - p) m delta; None where delta hides it.

    Half a guess is added to either side. docs/proofs/audit.md has the mean.
    """
    hidden = records * delta
    if right + 0.5 <= hidden:
        return None
    p = (right + 0.5 - hidden) / (guesses + 1 - hidden)
    return EpsilonEstimate(
        of=f"{guesses} guesses",
        epsilon=max(0.0, math.log(p / (1 - p))),
        standard_error=math.sqrt(guesses / (p * (1 - p))) / (guesses + 1 - hidden),
    )


def _share(count: int, rows: int) -> float:
    return (count + 0.5) / (rows + 1)
