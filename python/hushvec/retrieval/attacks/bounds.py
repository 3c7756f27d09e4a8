"""Limits that (epsilon, delta) sets to any membership attack, and the largest epsilon that proves a limit on attacks."""

from __future__ import annotations

import math
from contextlib import suppress

from hushvec._util import validate

_UP = 1 + 2.0**-48


def membership_bound(epsilon: float, delta: float, fpr: float) -> float:
    """The largest rate of true positives that a membership attack can have at a rate of false ones.

    Args:
        epsilon: >= 0, of everything the attack uses about one document.
        delta: in [0, 1).
        fpr: in [0, 1], share of non-members that the attack calls members.

    Guarantees:
        min(e^epsilon fpr + delta, 1 - e^-epsilon (1 - delta - fpr), 1), rounded up. It holds for expected rates, over the choice of
        members, the noise, and candidates drawn from the pool, whatever else the attack knows: all other documents, both vectors of a
        replaced pair, the mechanism. A measured rate scatters around it.

    Reference:
        Wasserman and Zhou, "A statistical framework for differential privacy" (2010), theorem 2.4; Kairouz, Oh, Viswanath,
        "The composition theorem for differential privacy" (2015), theorem 2.1; docs/proofs/membership_bound.md.

    Example:
        >>> from hushvec.retrieval import membership_bound
        >>> round(membership_bound(1.0, 1e-5, 0.01), 5)
        0.02719
    """
    epsilon, delta, growth = *_promise(epsilon, delta), math.inf
    if not 0 <= (fpr := validate.number("fpr", fpr)) <= 1:
        raise ValueError(f"fpr must be in [0, 1], got {fpr!r}")
    with suppress(OverflowError):
        growth = math.exp(epsilon)
    left = fpr * growth + delta if fpr > 0 else delta
    right = 1 - math.exp(-epsilon) * (1 - delta - fpr)
    return min(1.0, left * _UP, right * _UP)


def membership_auc_bound(epsilon: float, delta: float = 0.0) -> float:
    """The largest area under the ROC curve that a membership attack can have, rounded up.

    1 - (1 - delta)^2 / (1 + e^epsilon), the area under `membership_bound`, whose arguments, guarantees and proof are shared.

    Example:
        >>> from hushvec.retrieval import membership_auc_bound
        >>> round(membership_auc_bound(1.0), 4)
        0.7311
    """
    epsilon, delta = _promise(epsilon, delta)
    decay = math.exp(-epsilon)
    meeting = (1 - delta) * decay / (1 + decay)
    return min(1.0, (1 - (1 - delta) * meeting) * _UP)


def identification_bound(epsilon: float, delta: float, candidates: int) -> float:
    """The largest expected share of rows whose vector can be named out of a list of c candidates, each equally likely for a row.

    (e^epsilon + (c - 1) delta) / (e^epsilon + c - 1), at most 1, rounded up, with epsilon and delta of one row. It holds for any
    adversary that names one vector for a row, from that row and what it knows of the list (docs/proofs/membership_bound.md, claim 5).
    """
    validate.not_negative("epsilon", epsilon)
    validate.delta(delta, zero_allowed=True)
    others = validate.whole_number("candidates", candidates, at_least=1) - 1
    decay = math.exp(-epsilon)
    return min(1.0, (1 + others * delta * decay) / (1 + others * decay) * _UP)


def attribute_bound(epsilon: float, delta: float, prior: float) -> float:
    """The largest expected share of rows whose label can be guessed, where the commonest label has the share `prior` of them.

    prior / (prior + (1 - prior) e^-epsilon) + delta, at most 1, rounded up, with epsilon and delta of one row. It holds for any
    adversary that guesses from that row and what it knows besides, for rows drawn independently (docs/proofs/membership_bound.md,
    claim 6).
    """
    epsilon, delta = _promise(epsilon, delta)
    share = validate.probability("prior", prior)
    return min(1.0, (share / (share + (1 - share) * math.exp(-epsilon)) + delta) * _UP)


def epsilon_for(target_tpr: float, fpr: float, delta: float) -> float:
    """The largest epsilon at which no attack can exceed a rate of true positives, by `membership_bound`.

    max(ln((target_tpr - delta) / fpr), ln((1 - delta - fpr) / (1 - target_tpr))), rounded down until the bound holds; 0 if none does.
    Each of the two lines of the bound is enough by itself, hence the larger one. target_tpr and fpr are in (0, 1).
    """
    wanted = []
    if target_tpr > delta:
        wanted.append(math.log((target_tpr - delta) / fpr))
    if target_tpr < 1 and fpr + delta < 1:
        wanted.append(math.log((1 - delta - fpr) / (1 - target_tpr)))
    found, margin = max([0.0, *wanted]), 2.0**-44
    while found > 0 and membership_bound(found, delta, fpr) > target_tpr:
        found, margin = max(0.0, found - margin), 2 * margin
    return found


def _promise(epsilon: float, delta: float) -> tuple[float, float]:
    return validate.not_negative("epsilon", epsilon), validate.delta(delta, zero_allowed=True)
