"""The pair audit: many releases of each of two neighboring inputs, and how well an event tells them apart.

For an (epsilon, delta)-DP mechanism, neighbors x and x' and any event E,  P[M(x) in E] <= e^epsilon P[M(x') in E] + delta.
So with a lower bound a on the first probability and an upper bound b on the second,  epsilon >= ln((a - delta) / b).

Events are half lines of a statistic. One part of the outputs trains the classifier, the second chooses an event for each of the k
statistics, the third judges: 2k bounds, each at (1 - confidence) / 2k. docs/proofs/audit.md has the argument.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np

from hushvec.audit.targets import (  # isort: skip
    FEWEST_SAMPLES, AuditTarget, Progress, Release, Rows, Scores, Statistic, as_numbers, as_target, parts, trained,
)
from hushvec._util import validate
from hushvec._util.rounding import next_down
from hushvec._util.statistics import clopper_pearson_lower, clopper_pearson_upper, wilson_upper
from hushvec.audit.results import AuditResult, most_telling, of_event, of_gaussian_curve
from hushvec.mechanisms import MECHANISMS
from hushvec.noise import gaussian_epsilon

# The classifier learns from a tenth of the samples of each input, or from fewer where the work would be more than this.
TRAINING_SHARE = 10
TRAINING_WORK = 1 << 29
MOST_TRAINING_ROWS = 5_000

_CANDIDATES = 512
# gaussian_epsilon errs upwards by less than this times 1 + epsilon; a lower bound must not.
_ROUNDED_UP_BY = 1e-12


@dataclass(frozen=True)
class Event:
    """`score >= threshold` (or below it), said to be likelier for one input of the pair (0 or 1) than for the other."""

    statistic: Statistic
    threshold: float
    above: bool
    likelier: int

    def count(self, scores: Scores) -> int:
        above = int(np.count_nonzero(scores >= self.threshold))
        return above if self.above else len(scores) - above

    def __str__(self) -> str:
        return f"{self.statistic.name} {'>=' if self.above else '<'} {self.threshold:.6g}"


def audit_pair(audited: Any, *, samples: int = 100_000, confidence: float = 0.999, progress: Progress | None = None) -> AuditResult:
    """Bound epsilon from below by telling two neighboring inputs apart; `details` has counts and the bound of every statistic.

    Args:
        audited, confidence, progress: as for `audit_mechanism`.
        samples: outputs drawn for each of the two inputs; at least 1000.

    Guarantees:
        If outputs are independent and the mechanism is (epsilon, delta)-DP at its claim, then it is flagged with probability
        at most 1 - confidence. Not being flagged proves nothing: the bound is as good as the pair, the statistics and the
        number of samples, and never above `epsilon_ceiling`, about ln(samples).

    Edge cases:
        More epsilon than the ceiling cannot be refuted: `could_flag` says so. For Gaussian noise, details["gaussian"] has a
            sharper bound that assumes a Gaussian trade-off curve: it never flags, but can make the result `suspicious`.

    Reference:
        Jagielski, Ullman, Oprea, "Auditing differentially private machine learning" (2020), section 3; Nasr et al., "Tight
        auditing of differentially private machine learning" (2023), section 4, for mu.
    """
    target = as_target(audited)
    samples = validate.whole_number("samples", samples, at_least=FEWEST_SAMPLES)
    confidence = validate.probability("confidence", confidence)
    width = len(target.pair[0])
    training_rows = min(samples // TRAINING_SHARE, MOST_TRAINING_ROWS, max(100, TRAINING_WORK // width**2))
    choosing_rows = samples // 2 - training_rows
    judging_rows = samples - training_rows - choosing_rows

    draws = partial(_drawn, target, target.stream(), progress)
    statistics = trained(target, *(np.concatenate(outputs) for outputs in zip(*draws(training_rows))))
    alpha = (1 - confidence) / (2 * len(statistics))
    runs = [[[statistic.of(side) for side in outputs] for statistic in statistics] for outputs in draws(choosing_rows)]
    columns = [[np.concatenate(scores) for scores in zip(*of_one)] for of_one in zip(*runs)]
    events = [_best_event(statistic, first, second, target.delta, alpha) for statistic, (first, second) in zip(statistics, columns)]
    sign = Event(statistics[0], 0.0, above=True, likelier=0)
    counted = np.zeros((len(events) + 1, 2), np.int64)  # how many outputs of the one and of the other input are in each event
    for outputs in draws(judging_rows):
        counted += [[event.count(event.statistic.of(side)) for side in outputs] for event in (*events, sign)]
    *counts, (hits, alarms) = counted.tolist()

    found = [
        (epsilon_bound(count[event.likelier], count[1 - event.likelier], judging_rows, target.delta, alpha), event, count)
        for event, count in zip(events, counts)
    ]
    bound, event, count = max(found, key=lambda tried: tried[0])
    estimated = [
        of_event(tried.statistic.name, seen[tried.likelier], seen[1 - tried.likelier], judging_rows, target.delta)
        for _, tried, seen in found
    ]
    details: dict[str, Any] = {
        "judged": judging_rows,
        "event": str(event),
        "counts": count,
        "statistics": {
            tried.statistic.name: {"event": str(tried), "counts": seen, "epsilon_lower": lower} for lower, tried, seen in found
        },
    }
    if target.name in MECHANISMS and MECHANISMS[target.name].law == "gaussian" and target.delta > 0:
        details["gaussian"] = _gaussian_bound(judging_rows - hits, alarms, judging_rows, target.delta, 1 - confidence)
        estimated.append(of_gaussian_curve(judging_rows - hits, alarms, judging_rows, target.delta))
    return AuditResult(
        mechanism=target.name, method="pair", epsilon_claimed=target.epsilon, delta=target.delta, epsilon_lower=bound,
        epsilon_ceiling=epsilon_bound(judging_rows, 0, judging_rows, target.delta, alpha), estimate=most_telling(estimated),
        confidence=confidence, samples=samples, statistic=event.statistic.name, threshold=event.threshold, details=details,
    )


def epsilon_bound(likelier: int, other: int, rows: int, delta: float, alpha: float) -> float:
    """ln((a - delta) / b), at least 0, with Clopper-Pearson bounds at alpha each."""
    a = clopper_pearson_lower(likelier, rows, alpha) - delta
    b = clopper_pearson_upper(other, rows, alpha)
    return max(0.0, next_down(math.log(a / b))) if a > 0 else 0.0


def _drawn(target: AuditTarget, release: Release, progress: Progress | None, rows: int) -> Iterator[list[Rows]]:
    for part in parts(rows, len(target.pair[0])):
        yield [as_numbers(target, release(np.tile(x, (part, 1)))) for x in target.pair]
        if progress is not None:
            progress(2 * part)


def _best_event(statistic: Statistic, first: Scores, second: Scores, delta: float, alpha: float) -> Event:
    """The event with the largest bound on the samples at hand, Wilson's intervals standing in for exact ones."""
    thresholds = _candidates(first, second)
    rows, z = len(first), -NormalDist().inv_cdf(alpha)
    above = [rows - np.searchsorted(np.sort(side), thresholds).astype(np.float64) for side in (first, second)]
    best, chosen = -math.inf, Event(statistic, 0.0, True, 0)
    for is_above in (True, False):
        counts = above if is_above else [rows - count for count in above]
        for likelier in (0, 1):
            a = 1 - wilson_upper(rows - counts[likelier], rows, z) - delta
            b = wilson_upper(counts[1 - likelier], rows, z)
            worth = np.where(a > 0, a, 1e-300) / b
            place = int(np.argmax(worth))
            if worth[place] > best:
                best, chosen = float(worth[place]), Event(statistic, float(thresholds[place]), is_above, likelier)
    return chosen


def _candidates(first: Scores, second: Scores) -> Scores:
    """Scores that were seen: evenly spread over the ranks, and ever closer to each other at both ends."""
    scores = np.sort(np.concatenate([first, second]))
    last = len(scores) - 1
    even = np.linspace(0, last, _CANDIDATES)
    end = np.geomspace(1, last, _CANDIDATES)
    ranks = np.concatenate([even, end, last - end]).round().astype(np.intp)
    return np.unique(scores[np.clip(ranks, 0, last)])


def _gaussian_bound(misses: int, alarms: int, rows: int, delta: float, alpha: float) -> dict[str, float]:
    """mu and epsilon of a Gaussian trade-off curve that passes the two error rates of the log ratio's sign, bounded above."""
    false_negative, false_positive = (clopper_pearson_upper(count, rows, alpha / 2) for count in (misses, alarms))
    normal = NormalDist()
    if max(false_negative, false_positive) >= 1 or false_negative + false_positive >= 1:
        return {"mu_lower": 0.0, "epsilon_lower": 0.0}
    mu = -normal.inv_cdf(false_positive) - normal.inv_cdf(false_negative)
    epsilon = float(gaussian_epsilon(delta, 1 / mu))
    return {"mu_lower": mu, "epsilon_lower": max(0.0, epsilon - _ROUNDED_UP_BY * (1 + epsilon))}
