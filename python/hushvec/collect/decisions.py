"""Which words somebody has: p-values of "nobody has this word", and their correction for looking at many words."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hushvec.audit.binomial import MARGIN, upper_tail

_Floats = NDArray[np.float64]


def binomial_p_values(successes: NDArray[np.int64], trials: NDArray[np.int64], probability: float) -> _Floats:
    """P[Binomial(trials, probability) >= successes], one a word; 1 where the successes are not above their mean.

    Exact up to the margin that is added: rare words of a large survey lie where a normal approximation would be wrong by factors.
    """
    result = np.ones(len(successes))
    above = np.flatnonzero(successes > trials * probability)
    questions, place = np.unique(np.stack((successes[above], trials[above])), axis=1, return_inverse=True)
    tails = [upper_tail(int(k), int(n), probability, 1 - probability) for k, n in questions.T]
    result[above] = np.minimum(1.0, np.array(tails)[place.ravel()] * (1 + MARGIN)) if len(above) else 1.0
    return result


def normal_p_values(z: _Floats) -> _Floats:
    """P[N(0, 1) >= z], one a word."""
    return np.array([0.5 * math.erfc(value / math.sqrt(2)) for value in z.tolist()])


def _bonferroni(p: _Floats) -> _Floats:
    return p * len(p)


def _holm(p: _Floats) -> _Floats:
    order = np.argsort(p, kind="stable")
    stepped = p[order] * np.arange(len(p), 0, -1)
    return _in_place(order, np.maximum.accumulate(stepped))


def _benjamini_hochberg(p: _Floats) -> _Floats:
    order = np.argsort(p, kind="stable")
    stepped = p[order] * len(p) / np.arange(1, len(p) + 1)
    return _in_place(order, np.minimum.accumulate(stepped[::-1])[::-1])


def _in_place(order: NDArray[np.intp], values: _Floats) -> _Floats:
    result = np.empty_like(values)
    result[order] = values
    return result


_ADJUSTMENTS: dict[str, Callable[[_Floats], _Floats]] = {
    "holm": _holm,
    "bonferroni": _bonferroni,
    "benjamini-hochberg": _benjamini_hochberg,
}
CORRECTIONS = tuple(_ADJUSTMENTS)


def adjusted(p_values: _Floats, correction: str) -> _Floats:
    """p-values that may be compared with alpha one by one.

    Args:
        correction: "bonferroni" or "holm" (never less powerful) keep the probability of a single false "present" at most alpha,
            whatever the dependence; "benjamini-hochberg" keeps the expected share of false ones among all "present" at most alpha
            where the words' counts are independent, as those of unary encoding are.

    Reference:
        Holm, "A simple sequentially rejective multiple test procedure" (1979); Benjamini, Hochberg, "Controlling the false
        discovery rate" (1995).
    """
    return np.minimum(_ADJUSTMENTS[correction](p_values), 1.0)
