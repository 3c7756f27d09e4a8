"""`hushvec audit mechanism`: try to refute a mechanism's claim with samples from its code."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import hushvec
from hushvec._util import validate
from hushvec._util.display import Progress
from hushvec.audit import (
    METHODS,
    Audit,
    AuditResult,
    AuditTarget,
    CodebookTarget,
    EpsilonEstimate,
    LabelTarget,
    MechanismTarget,
    RepeatsResult,
    audit_mechanism,
)
from hushvec.audit.estimates import SUSPICIOUS_ERRORS
from hushvec.cli._arguments import Subparsers, add_command, add_group
from hushvec.cli._output import facts, print_json
from hushvec.mechanisms import MECHANISMS, PublicCodebook
from hushvec.release.plan import plan_release

FLAGGED = 1
RANDOMIZED_RESPONSE = "randomized_response"
CODEBOOK = "codebook"

# Rows that each method releases, as multiples of --samples, for the length of the progress bar.
_ROWS = {"pair": 2, "one-run": 1, "repeats": 4}


def add_to(subparsers: Subparsers) -> None:
    example = ("the Gaussian mechanism at epsilon 2", "hushvec audit mechanism --epsilon 2")
    audit = add_group(subparsers, "audit", "WHAT", "Try to refute a claim with samples from the code.", (example,))
    parser = add_command(
        audit,
        "mechanism",
        run,
        help="a lower bound on a mechanism's true epsilon",
        description=(
            "Draw samples from the real code and bound its epsilon from below. Exit code 0: the claim was not\n"
            "refuted, which proves nothing; 1: it was. A correct mechanism is flagged with probability at most\n"
            "1 - confidence. A claim that is not refuted is SUSPICIOUS, with exit code 0, where an estimate of\n"
            "epsilon is more than 3 standard errors above it. Small dimensions and an epsilon of 1 to 4 work best."
        ),
        examples=(
            example,
            ("your own sigma: epsilon follows from it", "hushvec audit mechanism --mechanism empirical --sigma 1.5"),
            (
                "quickly, with one method",
                "hushvec audit mechanism --mechanism privunit --epsilon 3 --method pair --samples 20000",
            ),
        ),
    )
    choices = (*MECHANISMS, RANDOMIZED_RESPONSE, CODEBOOK)
    parser.add_argument("--mechanism", choices=choices, default="gaussian", help="default gaussian")
    parser.add_argument("--epsilon", type=float, help="the claim; for --mechanism empirical it follows from --sigma")
    parser.add_argument("--delta", type=float, default=1e-5, help="delta, for the Gaussian kinds (default 1e-5)")
    parser.add_argument("--sigma", type=float, help="standard deviation for --mechanism empirical")
    parser.add_argument("--clip-norm", type=float, default=1.0, help="L2 norm that rows are clipped to (default 1)")
    parser.add_argument("--dimension", type=int, default=8, metavar="D", help="elements in a row (default 8)")
    parser.add_argument("--labels", type=int, default=10, metavar="K", help="labels of randomized_response (default 10)")
    parser.add_argument("--codebook", type=Path, metavar="FILE", help="for --mechanism codebook (hushvec codebook makes one)")
    parser.add_argument("--samples", type=int, default=100_000, metavar="N", help="for each method and input (default 100000)")
    parser.add_argument("--confidence", type=float, default=0.999, help="of the verdict (default 0.999)")
    parser.add_argument("--method", choices=METHODS, default="all", help="default all")


def run(options: argparse.Namespace) -> int:
    target = _target(options)
    methods = _ROWS if options.method == "all" else {options.method: _ROWS[options.method]}
    with Progress("auditing", max(options.samples, 0) * sum(methods.values())) as progress:
        audit = audit_mechanism(
            target,
            samples=options.samples,
            confidence=options.confidence,
            method=options.method,
            progress=progress.advance,
        )
    claim = {"mechanism": target.name, "epsilon": target.epsilon, "delta": target.delta}
    if options.json:
        print_json({**claim, **audit.to_dict()})
    else:
        print(facts(_lines(target, audit)))
    return FLAGGED if audit.flagged else 0


def _target(options: argparse.Namespace) -> AuditTarget:
    if (options.mechanism == CODEBOOK) != (options.codebook is not None):
        raise ValueError("--codebook FILE must be given with --mechanism codebook, and with no other")
    if options.mechanism == CODEBOOK:
        return CodebookTarget(PublicCodebook.load(options.codebook).mechanism(_needed_epsilon(options)))
    if options.mechanism == RANDOMIZED_RESPONSE:
        return _randomized_response(options)
    validate.whole_number("dimension", options.dimension, at_least=1)
    plan = plan_release(
        rows=1,
        dimension=options.dimension,
        dtype="float32",
        epsilon=options.epsilon,
        delta=options.delta,
        clip_norm=options.clip_norm,
        mechanism=options.mechanism,
        sigma=options.sigma,
        normalize=False,
        renormalize=False,
        per="record",
        generator=None,
    )
    return MechanismTarget(plan.mechanism)


def _randomized_response(options: argparse.Namespace) -> AuditTarget:
    labels, epsilon = options.labels, _needed_epsilon(options)
    return LabelTarget(
        lambda truth, generator: hushvec.randomized_response(truth, range(labels), epsilon, generator=generator),
        labels=labels,
        epsilon=epsilon,
    )


def _needed_epsilon(options: argparse.Namespace) -> float:
    if options.epsilon is None:
        raise TypeError(f"epsilon must be given for mechanism {options.mechanism!r}")
    return float(options.epsilon)


def _lines(target: AuditTarget, audit: Audit) -> list[tuple[str, str]]:
    return [
        ("mechanism", target.name),
        ("claimed", f"epsilon {target.epsilon!r}, delta {target.delta!r}"),
        *((result.method, _found(result)) for result in audit.results),
        ("verdict", f"{_verdict(audit)} (confidence {audit.confidence:g})"),
    ]


def _verdict(audit: Audit) -> str:
    if audit.flagged:
        return "FLAGGED: the claim is refuted"
    if audit.suspicious:
        return f"SUSPICIOUS: not refuted, but an estimate is more than {SUSPICIOUS_ERRORS:g} standard errors above the claim"
    return "consistent with the claim, which is no proof of it"


def _found(result: AuditResult | RepeatsResult) -> str:
    if isinstance(result, RepeatsResult):
        return (
            f"{'noise repeats' if result.flagged else 'no repeated noise found'}, p = {result.p_value:.3g} ({result.statistic})"
        )
    blind = "" if result.could_flag else "; could not have refuted the claim"
    bound = f"epsilon >= {_down(result.epsilon_lower)} by {result.statistic}, of at most {_down(result.epsilon_ceiling)}{blind}"
    return bound if result.estimate is None else f"{bound}; estimate {_estimated(result.estimate)}"


def _estimated(estimate: EpsilonEstimate) -> str:
    return f"{estimate.epsilon:.4f} with standard error {estimate.standard_error:.4f} by {estimate.of}"


def _down(bound: float) -> str:
    """Four decimals, never more than was found."""
    return f"{math.floor(bound * 1e4) / 1e4:.4f}"
