"""A lower bound on the epsilon of an index, from guesses of the coins that decided its members.

A coin says which document of a pair is in the index. Guesses are right more often than 1 / (1 + e^-epsilon) allows only if the claim
is false; the bound is that of `hushvec.audit.one_run_epsilon`. The statistic, and about how many of the surest pairs are guessed, are
chosen on the shadow models; three numbers of guesses are tried on the target, at a share of the confidence each. The adversary may
know everything but the coins: both documents of a pair, and that they have the pair's number as id.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushvec._util.statistics import clopper_pearson_lower, clopper_pearson_upper, wilson_upper
from hushvec.audit.indexes.features import own_scores
from hushvec.audit.indexes.shadows import Game, Model
from hushvec.audit.indexes.statistics import Rows, Statistic
from hushvec.audit.one_run import bounds_of_guesses

# Shares of the pairs that are guessed, the surest of them.
_SHARES = tuple(2.0 ** (-step / 2) for step in range(17))
_FEWEST_GUESSES = 8
# The share that is best on the shadows, and smaller ones, of which few shadows see too little.
_PARTS = (1, 4, 16)
# Standard deviations of the quick stand-in for the bound, while statistic and share are chosen among about a hundred.
_CAUTION = 3.0
# What an id says that was not returned, in ranks.
_MISSING = 0.1


@dataclass(frozen=True, kw_only=True)
class EpsilonBound:
    """The bound that guesses prove.

    Args:
        delta, confidence: of the bound.
        guesses, right: pairs that were guessed, for the number that gave the best bound, and how many of them rightly.
    """

    epsilon_lower: float  # with probability at least `confidence` the true epsilon, at `delta`, is no smaller
    epsilon_ceiling: float  # the bound that only right guesses would have given
    delta: float
    confidence: float
    pairs: int  # coins that were thrown
    guesses: int
    right: int
    statistic: str  # what guessed
    queries: int  # queries that a guess used


def pair_statistics(game: Game, statistics: Sequence[Statistic], *, both: bool) -> list[Statistic]:
    """Statistics of each pair: by `statistics` of candidates, and by the score of the pair's own id.

    With `both` a guess may use the queries of both documents of a pair, else those of the first only.
    """
    found = [_of_pairs(statistic, game, both) for statistic in statistics]
    found.append(_own_id(game, both, shift=False))
    if game.queries.shape[1] > 1 and all(model.scores is not None for model in (*game.shadows, *game.targets)):
        found.append(_own_id(game, both, shift=True))
    return found


def audited_epsilon(
    game: Game, statistics: Sequence[Statistic], *, delta: float, confidence: float, queries: int
) -> EpsilonBound:
    """Guess the coins of a game's targets. Statistic and number of guesses are chosen on the shadows."""
    coins = np.stack([model.coins for model in game.shadows])
    statistic, share = max(
        ((statistic, share) for statistic in statistics for share in _SHARES),
        key=lambda choice: _quick_bound(choice[0].shadows, coins[: len(choice[0].shadows)], choice[1], len(game.targets)),
    )
    return bound_of_guesses(
        statistic.name,
        statistic.targets,
        np.stack([model.coins for model in game.targets]),
        [share / part for part in _PARTS],
        delta=delta,
        confidence=confidence,
        queries=queries,
    )


def bound_of_guesses(
    name: str, scores: Rows, coins: NDArray[np.intp], shares: Sequence[float], *, delta: float, confidence: float, queries: int
) -> EpsilonBound:
    """The best bound from guessing the surest `shares` of all pairs, by statistics [targets, pairs] and coins alike.

    Each share is one thing tried, and has its part of what confidence leaves.
    """
    pairs = scores.size
    tried = [
        (guesses, _right(scores.ravel(), coins.ravel(), guesses)) for guesses in (_guesses(pairs, share) for share in shares)
    ]
    bounds, best, ceiling = bounds_of_guesses(pairs, tried, delta, confidence)
    return EpsilonBound(
        epsilon_lower=bounds[best],
        epsilon_ceiling=ceiling,
        delta=delta,
        confidence=confidence,
        pairs=pairs,
        guesses=tried[best][0],
        right=tried[best][1],
        statistic=name,
        queries=queries,
    )


def epsilon_from_rates(members: Rows, others: Rows, thresholds: Sequence[float], *, delta: float, confidence: float) -> float:
    """The bound of an adversary that knows no ids: from its rates of true and false positives at thresholds fixed beforehand.

    The largest of ln((TPR_low - delta) / FPR_high) and ln((1 - FPR_high - delta) / (1 - TPR_low)), where the Clopper-Pearson bounds of
    all thresholds hold together at this confidence; 0 if none is positive. Scores are taken to be independent of each other.
    """
    alpha = (1 - confidence) / (2 * len(thresholds))
    found = 0.0
    for threshold in thresholds:
        tpr = clopper_pearson_lower(int((members >= threshold).sum()), len(members), alpha)
        fpr = clopper_pearson_upper(int((others >= threshold).sum()), len(others), alpha)
        for more, less in ((tpr - delta, fpr), (1 - fpr - delta, 1 - tpr)):
            if more > less > 0:
                found = max(found, math.log(more / less))
    return found


def _of_pairs(statistic: Statistic, game: Game, both: bool) -> Statistic:
    """The first document's number less the second's; less the shadows' median if only the first may be asked about."""
    center = float(np.median(statistic.shadows))

    def values(models: Sequence[Model], numbers: Rows) -> Rows:
        first = np.stack([row[model.pairs[:, 0]] for model, row in zip(models, numbers)])
        second = np.stack([row[model.pairs[:, 1]] for model, row in zip(models, numbers)])
        return first - second if both else first - center

    return Statistic(statistic.name, values(game.shadows, statistic.shadows), values(game.targets, statistic.targets))


def _own_id(game: Game, both: bool, *, shift: bool) -> Statistic:
    """The score of the pair's id, along the difference of what its two documents would score: sum (s - (a + b) / 2) (a - b).

    With Gaussian noise this is the log likelihood ratio, up to a factor, of the scores that are returned. With `shift` the means
    over a document's queries are taken off first: noise that comes back in every answer falls out.
    """
    documents, queries = game.documents, game.queries

    def of(model: Model) -> Rows:
        seen = own_scores(model.ids, model.scores, model.own)
        total = np.zeros(len(model.pairs))
        for asked in model.pairs.T[: 2 if both else 1]:
            first, second = (
                np.einsum("pd,pqd->pq", documents[partner], queries[asked]).astype(np.float64) for partner in model.pairs.T
            )
            there = np.isfinite(seen[asked])
            difference = first - second
            if model.scores is None:
                # a rank is the better the smaller; that an id is missing says little
                excess = np.where(there, seen[asked] + model.ids.shape[2] + 1.0, -_MISSING)
            else:
                last = model.scores[asked].min(axis=2)
                excess = np.where(there, seen[asked], np.minimum(last, (first + second) / 2)) - (first + second) / 2
            if shift:
                excess, difference = _centered(excess, there), _centered(difference, there)
            total += (excess * difference).sum(axis=1)
        return total

    return Statistic(
        "own id but for a shift" if shift else "own id",
        np.stack([of(model) for model in game.shadows]),
        np.stack([of(model) for model in game.targets]),
    )


def _centered(values: Rows, there: NDArray[np.bool_]) -> Rows:
    """Rows less the mean of the numbers that are there; 0 where one is not."""
    mean = np.where(there, values, 0.0).sum(axis=1) / np.maximum(there.sum(axis=1), 1)
    centered: Rows = np.where(there, values - mean[:, None], 0.0)
    return centered


def _guesses(pairs: int, share: float) -> int:
    return min(pairs, max(_FEWEST_GUESSES, round(pairs * share)))


def _right(scores: Rows, coins: NDArray[np.intp], guesses: int) -> int:
    surest = np.argsort(-np.abs(scores), kind="stable")[:guesses]
    return int(((scores[surest] > 0) == (coins[surest] == 0)).sum())


def _quick_bound(scores: Rows, coins: NDArray[np.intp], share: float, targets: int) -> float:
    """About the bound that targets would give if they were like the shadows: no surer than the smaller number of guesses allows."""
    guesses = _guesses(scores.size, share)
    wrong = 1 - _right(scores.ravel(), coins.ravel(), guesses) / guesses
    counted = min(guesses, _guesses(scores.shape[1] * targets, share))
    upper = float(wilson_upper(np.array([wrong * counted]), counted, _CAUTION)[0])
    return float(np.log((1 - upper) / upper)) if upper < 1 else -np.inf
