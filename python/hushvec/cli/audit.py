"""`hushvec audit mechanism`: try to refute a mechanism's claim with samples from its code."""

from __future__ import annotations

import math
from pathlib import Path

from hushvec import audit
from hushvec._util import validate
from hushvec._util.display import Progress
from hushvec.audit.results import SUSPICIOUS_ERRORS
from hushvec.cli._output import answered, facts
from hushvec.cli._parser import Command, option
from hushvec.extend import plan_release
from hushvec.mechanisms import MECHANISMS, PublicCodebook
from hushvec.mechanisms.randomized_response import randomized_response

FLAGGED = 1
RANDOMIZED_RESPONSE = "randomized_response"
CODEBOOK = "codebook"

# Rows that each method releases, as multiples of --samples, for the length of the progress bar.
_ROWS = {"pair": 2, "one-run": 1, "repeats": 4}

_EXAMPLE = ("the Gaussian mechanism at epsilon 2", "hushvec audit mechanism --epsilon 2")


class AuditWhat(Command, name="audit", metavar="WHAT", examples=(_EXAMPLE,)):
    """Try to refute a claim with samples from the code."""


class AuditMechanism(Command, name="audit mechanism", help="a lower bound on a mechanism's true epsilon", examples=(
    _EXAMPLE,
    ("your own sigma: epsilon follows from it", "hushvec audit mechanism --mechanism empirical --sigma 1.5"),
    ("quickly, with one method", "hushvec audit mechanism --mechanism privunit --epsilon 3 --method pair --samples 20000"),
)):
    """Draw samples from the real code and bound its epsilon from below. Exit code 0: the claim was not
    refuted, which proves nothing; 1: it was. A correct mechanism is flagged with probability at most
    1 - confidence. A claim that is not refuted is SUSPICIOUS, with exit code 0, where an estimate of
    epsilon is more than 3 standard errors above it. Small dimensions and an epsilon of 1 to 4 work best."""

    mechanism: str = option("", "gaussian", choices=lambda: (*MECHANISMS, RANDOMIZED_RESPONSE, CODEBOOK))
    epsilon: float | None = option("the claim; for --mechanism empirical it follows from --sigma")
    delta: float = option("delta, for the Gaussian kinds", 1e-5)
    sigma: float | None = option("standard deviation for --mechanism empirical")
    clip_norm: float = option("L2 norm that rows are clipped to", 1.0)
    dimension: int = option("elements in a row", 8, metavar="D")
    labels: int = option("labels of randomized_response", 10, metavar="K")
    codebook: Path | None = option("for --mechanism codebook (hushvec codebook makes one)", metavar="FILE")
    samples: int = option("for each method and input", 100_000, metavar="N")
    confidence: float = option("of the verdict", 0.999)
    method: str = option("", "all", choices=audit.METHODS)

    def run(self) -> int:
        target = _target(self)
        methods = _ROWS if self.method == "all" else {self.method: _ROWS[self.method]}
        with Progress("auditing", max(self.samples, 0) * sum(methods.values())) as progress:
            found = audit.audit_mechanism(
                target, samples=self.samples, confidence=self.confidence, method=self.method, progress=progress.advance
            )
        claim = {"mechanism": target.name, "epsilon": target.epsilon, "delta": target.delta}
        answered(self, {**claim, **found.to_dict()}, facts(_lines(target, found)))
        return FLAGGED if found.flagged else 0


def _target(options: AuditMechanism) -> audit.AuditTarget:
    if (options.mechanism == CODEBOOK) != (options.codebook is not None):
        raise ValueError("--codebook FILE must be given with --mechanism codebook, and with no other")
    if options.codebook is not None:
        return audit.CodebookTarget(PublicCodebook.load(options.codebook).mechanism(_needed_epsilon(options)))
    if options.mechanism == RANDOMIZED_RESPONSE:
        labels, epsilon = options.labels, _needed_epsilon(options)
        return audit.LabelTarget(
            lambda truth, generator: randomized_response(truth, range(labels), epsilon, generator=generator),
            labels=labels,
            epsilon=epsilon,
        )
    validate.whole_number("dimension", options.dimension, at_least=1)
    named = options.named("dimension", "epsilon", "delta", "clip_norm", "mechanism", "sigma")
    return audit.MechanismTarget(plan_release(rows=1, dtype="float32", **named).mechanism)


def _needed_epsilon(options: AuditMechanism) -> float:
    if options.epsilon is None:
        raise TypeError(f"epsilon must be given for mechanism {options.mechanism!r}")
    return options.epsilon


def _lines(target: audit.AuditTarget, found: audit.Audit) -> list[tuple[str, str]]:
    verdict = "FLAGGED: the claim is refuted" if found.flagged else "consistent with the claim, which is no proof of it"
    if found.suspicious and not found.flagged:
        verdict = f"SUSPICIOUS: not refuted, but an estimate is more than {SUSPICIOUS_ERRORS:g} standard errors above the claim"
    return [
        ("mechanism", target.name),
        ("claimed", f"epsilon {target.epsilon!r}, delta {target.delta!r}"),
        *((result.method, _found(result)) for result in found.results),
        ("verdict", f"{verdict} (confidence {found.confidence:g})"),
    ]


def _found(result: audit.AuditResult | audit.RepeatsResult) -> str:
    if isinstance(result, audit.RepeatsResult):
        return f"{'noise repeats' if result.flagged else 'no repeated noise found'}, p = {result.p_value:.3g} ({result.statistic})"
    blind = "" if result.could_flag else "; could not have refuted the claim"
    bound = f"epsilon >= {_down(result.epsilon_lower)} by {result.statistic}, of at most {_down(result.epsilon_ceiling)}{blind}"
    if (found := result.estimate) is None:
        return bound
    return f"{bound}; estimate {found.epsilon:.4f} with standard error {found.standard_error:.4f} by {found.of}"


def _down(bound: float) -> str:
    """Return four decimals, never more than was found."""
    return f"{math.floor(bound * 1e4) / 1e4:.4f}"
