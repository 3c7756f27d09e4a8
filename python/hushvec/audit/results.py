"""Results of audits: bounds, point estimates with their standard errors, and verdicts in plain words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from statistics import NormalDist
from typing import Any

from hushvec._util.display import Sheet, at_least, at_most, confidence_of, number, shown
from hushvec.noise import gaussian_epsilon

# An audit is suspicious where an estimate is more than so many of its standard errors above the claim. At 3, a normal estimate of a
# claim that is exactly kept is above it with probability 0.00135; docs/audit.md has the rate measured over all that an audit tries.
SUSPICIOUS_ERRORS = 3.0


@dataclass(frozen=True, kw_only=True)
class EpsilonEstimate:
    """An estimate of the epsilon that the code really has, at the claimed delta."""

    of: str  # what it was made from: a statistic, the Gaussian curve, or a number of guesses
    epsilon: float  # the estimate, >= 0
    standard_error: float  # its standard deviation over the randomness of the samples, from a normal approximation

    @property
    def low(self) -> float:
        """SUSPICIOUS_ERRORS standard errors below the estimate."""
        return self.epsilon - SUSPICIOUS_ERRORS * self.standard_error


def most_telling(estimates: Iterable[EpsilonEstimate | None]) -> EpsilonEstimate | None:
    """The estimate with the highest lower end; None if there is none."""
    return max((one for one in estimates if one is not None), key=lambda one: one.low, default=None)


def of_event(name: str, likelier: int, other: int, rows: int, delta: float) -> EpsilonEstimate | None:
    """ln((a - delta) / b) of an event fixed beforehand, half a count added to each; None where a does not exceed delta."""
    a, b = (_share(count, rows) for count in (likelier, other))
    if a <= delta:
        return None
    variance = a * (1 - a) / (rows * (a - delta) ** 2) + (1 - b) / (rows * b)
    return EpsilonEstimate(of=name, epsilon=max(0.0, math.log((a - delta) / b)), standard_error=math.sqrt(variance))


def of_gaussian_curve(misses: int, alarms: int, rows: int, delta: float) -> EpsilonEstimate | None:
    """The epsilon of a Gaussian trade-off curve through the error rates of one fixed event (Nasr et al. 2023, section 4); None if they
    are no better than a coin."""
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
    """ln(p / (1 - p)) from the mean of right guesses, p r + (1 - p) m delta (docs/proofs/audit.md); None where delta hides it."""
    hidden = records * delta
    if right + 0.5 <= hidden:
        return None
    p = (right + 0.5 - hidden) / (guesses + 1 - hidden)
    return EpsilonEstimate(
        of=f"{guesses} guesses", epsilon=max(0.0, math.log(p / (1 - p))),
        standard_error=math.sqrt(guesses / (p * (1 - p))) / (guesses + 1 - hidden),
    )


def _share(count: int, rows: int) -> float:
    return (count + 0.5) / (rows + 1)


def as_json(value: Any) -> Any:
    """Dataclasses, mappings and sequences in types that JSON has, with texts as keys."""
    if is_dataclass(value):
        value = {one.name: getattr(value, one.name) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): as_json(inner) for name, inner in value.items()}
    return list(map(as_json, value)) if isinstance(value, (list, tuple)) else value


THIS_ATTACK = "an attack that fails proves nothing: a stronger one may succeed"


def bound_facts(claimed: float | None, delta: float, lower: float, ceiling: float, confidence: float) -> list[tuple[str, str]]:
    """Lines on what was claimed (None: nothing), what was proved (at most `ceiling`), and what follows."""
    return [
        ("claimed", "nothing" if claimed is None else f"epsilon {at_least(claimed)}, delta {at_least(delta)}"),
        ("proved", f"epsilon is at least {at_most(lower)}, with {confidence_of(confidence)} confidence"),
        ("verdict", _verdict(claimed, lower, ceiling)),
    ]


def _verdict(claimed: float | None, lower: float, ceiling: float) -> str:
    if claimed is None:
        return "there is no claim to refute"
    if lower > claimed:
        return "THE CLAIM IS REFUTED"
    if ceiling > claimed:
        return "the claim is not refuted, which does not prove it"
    return f"these samples could not have refuted the claim: they could prove at most epsilon {at_least(ceiling)}"


@shown
@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """A lower bound on the epsilon that the code really has. `print` shows it beside the claim.

    Args:
        mechanism, method: what was audited, and how: "pair" or "one-run".
        epsilon_claimed, delta: what the mechanism says it costs.
        epsilon_lower, epsilon_ceiling: with probability at least `confidence`, epsilon is no smaller; the largest possible bound.
        estimate: of what was tried, the estimate of epsilon whose lower end, 3 standard errors down, is highest; None without one.
        confidence: over the randomness of the samples, everything that was tried included.
        samples: outputs for each of the two inputs ("pair"), or records ("one-run").
        statistic, threshold: what outputs were reduced to, the best of those tried, and the value they were split at.
        details: counts, and the bound of every statistic that was tried.
    """

    mechanism: str
    method: str
    epsilon_claimed: float
    delta: float
    epsilon_lower: float
    epsilon_ceiling: float
    estimate: EpsilonEstimate | None
    confidence: float
    samples: int
    statistic: str
    threshold: float
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def flagged(self) -> bool:
        """Whether the claim is refuted."""
        return self.epsilon_lower > self.epsilon_claimed

    @property
    def suspicious(self) -> bool:
        """Whether the claim is not refuted, and yet an estimate is more than 3 standard errors above it. No proof of anything."""
        return not self.flagged and self.estimate is not None and self.estimate.low > self.epsilon_claimed

    @property
    def could_flag(self) -> bool:
        """Whether this many samples could have refuted the claim at all."""
        return self.epsilon_ceiling > self.epsilon_claimed

    def _sheet(self) -> Sheet:
        facts = bound_facts(self.epsilon_claimed, self.delta, self.epsilon_lower, self.epsilon_ceiling, self.confidence)
        if self.estimate is not None:
            estimate = f"epsilon {number(self.estimate.epsilon)} +- {number(self.estimate.standard_error)} (one standard error)"
            facts.append(("estimate", f"{estimate}, from {self.estimate.of}; no proof of anything"))
        facts.append(("method", f"{self.method}, {self.samples:,} samples, by {self.statistic}"))
        cautions = ["suspicious: an estimate is more than 3 standard errors above the claim"] if self.suspicious else []
        return Sheet(f"Audit of {self.mechanism}", tuple(facts), tuple(cautions))

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {**asdict(self), "flagged": self.flagged, "suspicious": self.suspicious, "could_flag": self.could_flag}


@shown
@dataclass(frozen=True, kw_only=True)
class RepeatsResult:
    """Whether the noise of one release comes back in another.

    Args:
        mechanism, samples: what was audited; rows of each release.
        p_value: probability of a sign this strong if all releases were independent; corrected for the number of tests.
        confidence: the noise is said to repeat where p_value <= 1 - confidence.
        statistic, details: the test with the smallest p-value, and the p-values of all tests before the correction.
    """

    mechanism: str
    p_value: float
    confidence: float
    samples: int
    statistic: str
    details: Mapping[str, Any] = field(default_factory=dict)
    method: str = "repeats"

    def _sheet(self) -> Sheet:
        facts = (
            ("verdict", "NOISE REPEATS" if self.flagged else "no sign that noise repeats"),
            ("p-value", f"{number(self.p_value)}, corrected; noise repeats where it is at most {number(1 - self.confidence)}"),
            ("method", f"{self.method}, {self.samples:,} rows per release, by {self.statistic}"),
        )
        return Sheet(f"Audit of {self.mechanism}", facts)

    @property
    def flagged(self) -> bool:
        """Whether noise repeats."""
        return self.p_value <= 1 - self.confidence

    @property
    def suspicious(self) -> bool:
        """Never: repeats are tested, not estimated."""
        return False

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {**asdict(self), "flagged": self.flagged, "suspicious": self.suspicious}


@shown
@dataclass(frozen=True, kw_only=True)
class Audit:
    """The results of several methods. `print` shows each verdict.

    With a probability of at least `confidence` no method flags a mechanism that keeps its claim.
    """

    results: tuple[AuditResult | RepeatsResult, ...]
    confidence: float

    @property
    def flagged(self) -> bool:
        """Whether any method refutes the claim."""
        return any(result.flagged for result in self.results)

    @property
    def suspicious(self) -> bool:
        """Whether no method refutes the claim, and an estimate of one is more than 3 standard errors above it."""
        return not self.flagged and any(result.suspicious for result in self.results)

    def _sheet(self) -> Sheet:
        facts = []
        for result in self.results:
            verdict = dict(result._sheet().facts)["verdict"]
            bound = f"; epsilon at least {at_most(result.epsilon_lower)}" if isinstance(result, AuditResult) else ""
            facts.append((result.method, f"{verdict}{bound}"))
        facts.append(("confidence", f"{confidence_of(self.confidence)} for all methods together"))
        return Sheet(f"Audit of {self.results[0].mechanism}" if self.results else "Audit", tuple(facts))

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "flagged": self.flagged,
            "suspicious": self.suspicious,
            "confidence": self.confidence,
            "results": [result.to_dict() for result in self.results],
        }
