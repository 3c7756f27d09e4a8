"""What an audit found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from hushvec._util.display import Sheet, at_most, confidence_of, number, shown
from hushvec.audit.estimates import EpsilonEstimate
from hushvec.audit.verdicts import bound_facts


@shown
@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """A lower bound on the epsilon that the code really has. `print` shows it beside the claim.

    Args:
        mechanism: what was audited.
        method: "pair" or "one-run".
        epsilon_claimed: what the mechanism says it costs.
        delta: the delta that goes with it.
        epsilon_lower: with probability at least `confidence`, the true epsilon at this delta is no smaller.
        epsilon_ceiling: the largest epsilon_lower that this many samples could have given.
        estimate: of what was tried, the estimate of epsilon whose lower end, 3 standard errors down, is highest; None without one.
        confidence: over the randomness of the samples, everything that was tried included.
        samples: outputs for each of the two inputs ("pair"), or records ("one-run").
        statistic: the number that outputs were reduced to, of those that were tried the one with the best bound.
        threshold: the value of the statistic that outputs were split at.
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
        mechanism: what was audited.
        p_value: probability of a sign this strong if all releases were independent; corrected for the number of tests.
        confidence: the noise is said to repeat where p_value <= 1 - confidence.
        samples: rows of each release.
        statistic: the test with the smallest p-value.
        details: the p-value of every test, before the correction.
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

    Args:
        results: one for each method.
        confidence: with at least this probability no method flags a mechanism that keeps its claim.
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
