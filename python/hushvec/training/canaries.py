"""The one-run audit of training: flip a fair coin for each canary, train once on the chosen ones, guess the coins from the model.

The bound on right guesses is that of `hushvec.audit.one_run`, which docs/proofs/audit.md proves for any mechanism that is (epsilon,
delta)-DP in each coin. Training under add-or-remove DP is one: the model is its output, and a score a function of the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec.audit import AuditResult
from hushvec.audit.one_run import result_of_guesses

__all__ = ["audit_training"]

Model = TypeVar("Model")

# Guesses on all canaries, on the half of them with the most extreme scores, and so on. Each is one more thing tried.
GUESSED_SHARES = (1, 2, 4, 8, 16)
FEWEST = 32


def audit_training(
    train: Callable[[NDArray[np.bool_]], Model], score: Callable[[Model], Any], *, canaries: int, epsilon: float, delta: float,
    confidence: float = 0.999, name: str = "training", coins: np.random.Generator | None = None,
) -> AuditResult:
    """Bound the epsilon of a training run from below by guessing which canaries it was given.

    Args:
        train: called once with a mask, bool [canaries]; trains on the usual data and the canaries with True, and returns the model.
        score: called with that model; float [canaries], larger where the model looks more as if it had seen the canary. How much
            lower the loss is than before training is a good one.
        canaries: m >= 32, how many there are; more canaries allow a larger bound.
        epsilon: what the run claims at `delta`, >= 0, under add-or-remove adjacency; math.inf for a run without a claim.
        delta: in [0, 1). It need not be the one that is published: a smaller delta with the epsilon that belongs to it leaves
            more room for the audit (see Edge cases).
        confidence: in (0, 1), of the bound, over everything that is tried.
        name: of the run, for the result.
        coins: where the coins come from; the operating system if None.

    Returns:
        An AuditResult; `details` has the guesses and the right ones for each number of guesses that was tried.

    Guarantees:
        If training is (epsilon, delta)-DP for adding or removing one example, it is flagged with probability at most 1 -
        confidence, whatever the canaries are and however they are scored. The other way round nothing follows: a run that is not
        flagged may be flagged with better canaries.

    Edge cases:
        Half of the guesses are "in", for the largest scores, and half "out", for the smallest. Equal scores are taken in the
        order of the canaries, which is independent of the coins.
        The model leaks the canaries that were put in: throw it away, or use canaries that need not stay secret. A bound needs
        guesses: with m = 500 and confidence 0.999 no result can be above epsilon = 2.5 at delta = 1e-5, and none above 4.0 at
        1e-6 (`epsilon_ceiling`).

    Reference:
        Steinke, Nasr, Jagielski, "Privacy auditing with one (1) training run" (2023), algorithm 1.

    Example:
        >>> import numpy as np
        >>> from hushvec.training import audit_training
        >>> leaks = audit_training(lambda given: given.astype(float), lambda model: model, canaries=200, epsilon=1.0, delta=0.0)
        >>> leaks.flagged, leaks.epsilon_lower > 2
        (True, True)
    """
    canaries = validate.whole_number("canaries", canaries, at_least=FEWEST)
    claimed = epsilon if epsilon == math.inf else validate.not_negative("epsilon", epsilon)
    delta = validate.delta(delta, zero_allowed=True)
    confidence = validate.probability("confidence", confidence)
    for what, given in (("train", train), ("score", score)):
        if not callable(given):
            raise TypeError(f"{what} must be callable, got {validate.kind(given)}")
    included = (np.random.default_rng() if coins is None else coins).integers(0, 2, canaries).astype(np.bool_)
    scores = _checked(score(train(included.copy())), canaries)

    order = np.argsort(-scores, kind="stable")
    halves = [canaries // (2 * share) for share in GUESSED_SHARES]
    tried = [(2 * n, int(included[order[:n]].sum() + (~included[order[canaries - n :]]).sum())) for n in halves]
    return result_of_guesses(
        tried,
        lambda guesses: float(scores[order[guesses // 2 - 1]]),
        mechanism=name,
        epsilon_claimed=claimed,
        delta=delta,
        confidence=confidence,
        samples=canaries,
        statistic="score",
        details={"included": int(included.sum())},
    )


def _checked(scores: Any, canaries: int) -> NDArray[np.float64]:
    try:
        found = np.asarray(scores, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"scores must be numbers, got {validate.kind(scores)}") from None
    if found.shape != (canaries,):
        raise ValueError(f"scores must be one for each of {canaries} canaries, got shape {found.shape}")
    if not np.isfinite(found).all():
        raise ValueError(f"scores must be finite, got {found[~np.isfinite(found)][0]!r}")
    return found
