"""The one-run audit: one release of many records, each one of two values by a fair coin, and the coins guessed from it.

For an (epsilon, delta)-DP mechanism a guess is right about as often as an epsilon-randomized response, q = e^epsilon /
(1 + e^epsilon), whatever else the output says. With m records, r guesses and W ~ Binomial(r, q), the number V of right ones has

    P[V >= v] <= P[W >= v] + 2 m delta max_i P[v > W >= v - i] / i            (Steinke, Nasr, Jagielski, theorem 5.2)
    P[V >= v] <= P[W >= v] + H((1 - q) m delta)                               (docs/proofs/audit.md)

H(c) is the largest sum of numbers a_i <= P[W = v - i] with sum i a_i <= c. The two are equal for delta = 0. The larger one is
used: it holds by the second, which is proved in full there, and says no more than the published one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hushvec._util import validate
from hushvec._util.statistics import binom_logpmf_down, binom_sf, with_margin
from hushvec.audit.results import AuditResult, most_telling, of_guesses
from hushvec.audit.targets import FEWEST_SAMPLES, Progress, as_numbers, as_target, parts, untrained

# Guesses on all records, on the quarter that the statistic is surest of, and so on. Each is one more thing tried.
GUESSED_SHARES = (1, 4, 16, 64, 256)

_STEPS = 40


def audit_one_run(
    audited: Any, *, samples: int = 100_000, confidence: float = 0.999, progress: Progress | None = None,
    coins: np.random.Generator | None = None,
) -> AuditResult:
    """Bound epsilon from below by guessing the coins behind one release; `details` has the guesses and the right ones.

    Args:
        audited, confidence, progress: as for `audit_mechanism`.
        samples: m, the records of the release; at least 1000.
        coins: where the coins come from; the operating system if None.

    Guarantees:
        If the mechanism is (epsilon, delta)-DP for every record at its claim, it is flagged with probability at most
        1 - confidence. Records need not be independent of each other: one that leaks into another's output counts too.

    Edge cases:
        The term with delta does not shrink with more records: at a confidence of 1 - 1e-6, delta = 1e-5 epsilon_lower is 0.

    Reference:
        Steinke, Nasr, Jagielski, "Privacy auditing with one (1) training run" (2023), theorem 5.2 and appendix D.
    """
    target = as_target(audited)
    samples = validate.whole_number("samples", samples, at_least=FEWEST_SAMPLES)
    confidence = validate.probability("confidence", confidence)
    coins = np.random.default_rng() if coins is None else coins
    statistic = untrained(target)[0]
    release, values = target.stream(), np.stack(target.pair)
    truth = coins.integers(0, 2, samples)
    scores = np.empty(samples)
    done = 0
    for part in parts(samples, values.shape[1]):
        rows = slice(done, done + part)
        scores[rows] = statistic.of(as_numbers(target, release(values[truth[rows]])))
        done += part
        if progress is not None:
            progress(part)

    surest = np.argsort(-np.abs(scores), kind="stable")
    right = np.cumsum((scores[surest] < 0) == truth[surest])
    tried = [(guesses, int(right[guesses - 1])) for guesses in (samples // share for share in GUESSED_SHARES)]
    return result_of_guesses(
        tried,
        lambda guesses: float(abs(scores[surest[guesses - 1]])),
        mechanism=target.name,
        epsilon_claimed=target.epsilon,
        delta=target.delta,
        confidence=confidence,
        samples=samples,
        statistic=statistic.name,
    )


def result_of_guesses(
    tried: Sequence[tuple[int, int]], threshold_of: Callable[[int], float], *, delta: float, confidence: float, samples: int,
    details: Mapping[str, Any] | None = None, **fields: Any,
) -> AuditResult:
    """The result for the best of several (guesses, right ones), each at its share of what confidence leaves."""
    bounds, place, ceiling = bounds_of_guesses(samples, tried, delta, confidence)
    best, right = tried[place]
    return AuditResult(
        method="one-run", delta=delta, epsilon_lower=bounds[place], epsilon_ceiling=ceiling,
        estimate=most_telling(of_guesses(samples, *one, delta) for one in tried),
        confidence=confidence, samples=samples, threshold=threshold_of(best),
        details={
            "guesses": best,
            "right": right,
            **(details or {}),
            "tried": [{"guesses": n, "right": right, "epsilon_lower": bound} for (n, right), bound in zip(tried, bounds)],
        },
        **fields,
    )


def bounds_of_guesses(
    records: int, tried: Sequence[tuple[int, int]], delta: float, confidence: float
) -> tuple[list[float], int, float]:
    """(bound of each (guesses, right ones) at its share of what confidence leaves, place of the best, what only right ones give)."""
    alpha = (1 - confidence) / len(tried)
    bounds = [one_run_epsilon(records, guesses, right, delta, alpha) for guesses, right in tried]
    ceiling = max(one_run_epsilon(records, guesses, guesses, delta, alpha) for guesses, _ in tried)
    return bounds, int(np.argmax(bounds)), ceiling


def one_run_p_value(records: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """The larger one of the two bounds above on the probability of so many right guesses, or more, under (epsilon, delta)-DP.

    Args:
        records: m, each one of two values by a fair coin.
        guesses, right: r, without abstentions; v of them were right.
        epsilon, delta: >= 0; in [0, 1).

    Example:
        >>> from hushvec.audit import one_run_p_value
        >>> round(one_run_p_value(1, 1, 1, epsilon=0.0, delta=0.0), 6)  # a coin
        0.5
    """
    _require_counts(records, guesses, right)
    epsilon, delta = validate.not_negative("epsilon", epsilon), validate.delta(delta, zero_allowed=True)
    tail, published, proved = _terms(records, guesses, right, epsilon, delta)
    return with_margin(tail + max(published, proved))


def published_p_value(records: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """The bound of theorem 5.2 alone, for comparison with published numbers. Arguments as for `one_run_p_value`."""
    tail, published, _ = _terms(records, guesses, right, epsilon, delta)
    return with_margin(tail + published)


def one_run_epsilon(records: int, guesses: int, right: int, delta: float, alpha: float) -> float:
    """An epsilon that so many right guesses rule out at level alpha, as large as bisection finds; 0 if there is none.

    Args:
        records: m; as `guesses`, `right` and `delta` for `one_run_p_value`.
        alpha: in (0, 1), the probability that the true epsilon is smaller.

    Example:
        >>> from hushvec.audit import one_run_epsilon
        >>> round(one_run_epsilon(1000, 100, 90, delta=0.0, alpha=0.05), 3)
        1.631
    """
    _require_counts(records, guesses, right)
    alpha = validate.probability("alpha", alpha)
    ruled_out = 0.0
    if one_run_p_value(records, guesses, right, ruled_out, delta) > alpha:
        return 0.0
    not_ruled_out = 1.0
    while one_run_p_value(records, guesses, right, not_ruled_out, delta) <= alpha:
        ruled_out, not_ruled_out = not_ruled_out, 2 * not_ruled_out
    for _ in range(_STEPS):
        middle = (ruled_out + not_ruled_out) / 2
        if one_run_p_value(records, guesses, right, middle, delta) <= alpha:
            ruled_out = middle
        else:
            not_ruled_out = middle
    return ruled_out


def _terms(records: int, guesses: int, right: int, epsilon: float, delta: float) -> tuple[float, float, float]:
    """(P[W >= v], what theorem 5.2 adds for delta, what docs/proofs/audit.md adds)."""
    p, q = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
    tail = binom_sf(right - 1, guesses, p, q)
    if delta == 0 or right == 0:
        return tail, 0.0, 0.0
    steepest, hidden, left = 0.0, 0.0, q * records * delta
    mass, place, complete = 0.0, 0, 1.0 - tail
    for block in binom_logpmf_down(right - 1, guesses, p, q):
        steps = np.arange(place + 1, place + len(block) + 1)
        weights = np.exp(block)
        so_far = mass + np.cumsum(weights)
        steepest = max(steepest, float((so_far / steps).max()))
        if left > 0:
            cost = np.cumsum(steps * weights)
            whole = int(np.searchsorted(cost, left, side="right"))
            hidden += float(weights[:whole].sum())
            if whole < len(block):
                hidden += (left - (float(cost[whole - 1]) if whole else 0.0)) / float(steps[whole])
                left = 0.0
            else:
                left -= float(cost[-1])
        mass, place = float(so_far[-1]), place + len(block)
        if left <= 0 and (mass >= complete * (1 - 1e-12) or 1 / place <= steepest):
            break
    return tail, 2 * records * delta * steepest, hidden


def _require_counts(records: int, guesses: int, right: int) -> None:
    validate.whole_number("right", right, at_least=0)
    if validate.whole_number("guesses", guesses, at_least=0) < right:
        raise ValueError(f"guesses must be >= right = {right}, got {guesses}")
    if validate.whole_number("records", records, at_least=1) < guesses:
        raise ValueError(f"records must be >= guesses = {guesses}, got {records}")
