"""Likelihood ratios: which of two rows is behind a release, and which rows of a pool are among the released ones.

The laws of releases are public, so no shadow models are needed: the ratios are exact.

Reference:
    Carlini, Chien, Nasr, Song, Terzis, Tramer, "Membership inference attacks from first principles" (2022), for judging by the ratio
    and at small rates of false positives.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushvec_studies.evaluation.attacks.likelihoods import Table, log_likelihoods, log_ratios
from hushvec_studies.evaluation.contenders import Contender

Rows = NDArray[np.float32]

_ROWS_AT_ONCE = 1000
# Candidates that explain no release at all are all alike.
_SMALLEST = 1e-300


def pair_ratios(contender: Contender, released: Rows, clean: Rows, random: np.random.Generator) -> Table:
    """For each release, ln of how much likelier it is with its own row behind it than with another one of the list.

    Args:
        contender: that released the rows.
        released: [n, e], n >= 2.
        clean: [n, e], what is behind them.
        random: of the other rows.
    """
    count = len(clean)
    others = (np.arange(count) + random.integers(1, count, count)) % count
    return log_ratios(contender, released, clean, clean[others])


def ties_broken(scores: Table, random: np.random.Generator) -> Table:
    """Scores with equal ones in random order: the best test at a small rate of false positives says yes to some of the equals. Two
    levels of a likelihood are further apart than this."""
    return scores + 1e-9 * random.random(len(scores))


def told_apart(ratios: Table, random: np.random.Generator) -> NDArray[np.bool_]:
    """Whether the likelier of the two rows is the own one. Equals are decided by a coin."""
    found: NDArray[np.bool_] = (ratios > 0) | ((ratios == 0) & (random.random(len(ratios)) < 0.5))
    return found


def members(count: int, random: np.random.Generator) -> NDArray[np.bool_]:
    """One of rows 0 and 1, one of 2 and 3, and so on: the game in which one row is replaced by another. `count` is even."""
    first = random.random(count // 2) < 0.5
    return np.stack([first, ~first], axis=1).ravel()


def explained(contender: Contender, released: Rows, pool: Rows) -> Table:
    """[c]: for each row of the pool, ln of how much better than the whole pool it explains the releases, on average over them.

    Args:
        contender: that released the rows.
        released: [n, e], of members.
        pool: [c, e], members and others.
    """
    total = np.zeros(len(pool))
    for first in range(0, len(released), _ROWS_AT_ONCE):
        table = log_likelihoods(contender, released[first : first + _ROWS_AT_ONCE], pool)
        table -= table.max(axis=1, keepdims=True)
        np.exp(table, out=table)
        table /= table.mean(axis=1, keepdims=True)
        total += table.sum(axis=0)
    return np.log(np.maximum(total / len(released), _SMALLEST))
