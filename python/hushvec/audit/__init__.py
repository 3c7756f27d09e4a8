"""Audits: a lower bound on the epsilon of the code as it runs, so that a broken mechanism is caught.

    from hushvec.audit import audit_mechanism
    audit_mechanism(Gaussian(epsilon=1.0, delta=1e-5, dimension=8)).flagged

Three methods. "pair" tells two neighboring inputs apart, "one-run" guesses the coins behind one release, "repeats" looks for
noise that comes back. An audit can refute a claim and never prove one; docs/audit.md says what it can see.

`protection` attacks vectors that were protected in any way, with or without a claim; docs/protection.md.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from hushvec._util import validate
from hushvec.audit.one_run import audit_one_run, one_run_epsilon, one_run_p_value
from hushvec.audit.pair import audit_pair
from hushvec.audit.repeats import audit_repeats
from hushvec.audit.results import Audit, AuditResult, EpsilonEstimate, RepeatsResult
from hushvec.audit.targets import AuditTarget, CodebookTarget, LabelTarget, MechanismTarget, Progress, as_target

__all__ = [
    "METHODS", "Audit", "AuditResult", "AuditTarget", "CodebookTarget", "EpsilonEstimate", "LabelTarget", "MechanismTarget",
    "RepeatsResult", "audit_mechanism", "audit_one_run", "audit_pair", "audit_repeats", "one_run_epsilon", "one_run_p_value",
]

_METHODS: dict[str, Callable[..., AuditResult | RepeatsResult]] = {
    "pair": audit_pair,
    "one-run": audit_one_run,
    "repeats": audit_repeats,
}
METHODS = (*_METHODS, "all")


def __getattr__(name: str) -> Any:
    if name == "protection":  # is made of attacks on indexes, which import this package
        return import_module("hushvec.retrieval.attacks.protection").protection
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def audit_mechanism(
    audited: Any, *, samples: int = 100_000, confidence: float = 0.999, method: str = "all", progress: Progress | None = None
) -> Audit:
    """Try to refute what a mechanism claims, with samples of its real code.

    Args:
        audited: a mechanism of hushvec.mechanisms, or an AuditTarget.
        samples: for each method, see there; at least 1000. 100,000 of a small dimension take about a second.
        confidence: in (0, 1); 1 - confidence is shared equally by the methods.
        method: "pair", "one-run", "repeats", or "all" three.
        progress: called with the number of rows just released.

    Returns:
        An Audit: one result for each method, `flagged` if any of them refutes the claim, and `suspicious` if none does but an
        estimate stands more than 3 standard errors above it.

    Guarantees:
        A mechanism that keeps its claim is flagged with probability at most 1 - confidence (docs/proofs/audit.md). A mechanism that
        is not flagged was not refuted: no audit can show more.

    Edge cases:
        An epsilon above about ln(samples) cannot be refuted, and a small excess of epsilon needs many samples: `suspicious` sees
        more of those, and calls a correct mechanism suspicious in about two audits of a thousand (docs/audit.md).

    Example:
        >>> from hushvec.audit import audit_mechanism
        >>> from hushvec.mechanisms import Laplacian
        >>> audit = audit_mechanism(Laplacian(epsilon=1.0, dimension=2), samples=20_000)
        >>> audit.flagged, [result.method for result in audit.results]
        (False, ['pair', 'one-run', 'repeats'])
    """
    validate.choice("method", method, METHODS)
    confidence = validate.probability("confidence", confidence)
    target = as_target(audited)
    chosen = tuple(_METHODS) if method == "all" else (method,)
    share = 1 - (1 - confidence) / len(chosen)
    results = tuple(_METHODS[name](target, samples=samples, confidence=share, progress=progress) for name in chosen)
    return Audit(results=results, confidence=confidence)
