"""Numbers that membership attacks judge candidates by, each large for members: learned from shadows, applied to targets.

LiRA: for each candidate the shadows give two normal laws of the statistic, with and without it; means and variances are shrunk
towards those of all candidates (empirical Bayes).
Released rows: p(row | candidate) over its mean on the pool, or p(row | first) / p(row | second) for an adversary that knows all
but a coin, the best statistic there is (Neyman and Pearson).
Epsilon: guesses of the coins, by `hushvec.audit.one_run_epsilon`; statistic and number of guesses are chosen on the shadows.

Reference:
    Carlini, Chien, Nasr, Song, Terzis, Tramer, "Membership inference attacks from first principles" (2022), algorithm 1;
    Efron and Morris, "Stein's estimation rule and its competitors" (1973), for the means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from hushvec._util.statistics import clopper_pearson_lower, clopper_pearson_upper, wilson_upper
from hushvec.audit.one_run import bounds_of_guesses
from hushvec.audit.targets import Logistic, fit_logistic
from hushvec.extend import RowReceipt
from hushvec.retrieval.attacks.curves import RocCurve
from hushvec.retrieval.attacks.features import Returned, Vectors, features_of, own_scores, top_score
from hushvec.retrieval.attacks.row_laws import Law, law_of, log_densities, log_ratios
from hushvec.retrieval.attacks.shadows import KEPT_SHADOWS, Game, Model

Rows = NDArray[np.float64]
Flags = NDArray[np.bool_]

# The pooled variance counts as so many of a candidate's own observations.
_VARIANCE_PRIOR = 16.0
# No law is narrower than this share of the statistic's whole spread.
_NARROWEST = 1e-6
_LARGEST_LOGIT = 700.0
# Rows compared with the pool at once: 1,000 x 10,000 log densities are 80 MB.
_ROWS_AT_ONCE = 1000
# Candidates that explain no row at all are all alike.
_SMALLEST = 1e-300
# Shares of the pairs that are guessed, the surest of them.
_SHARES = tuple(2.0 ** (-step / 2) for step in range(17))
_FEWEST_GUESSES = 8
# The share that is best on the shadows, and smaller ones, of which few shadows see too little.
_PARTS = (1, 4, 16)
# Standard deviations of the quick stand-in for the bound, while statistic and share are chosen among about a hundred.
_CAUTION = 3.0
# What an id says that was not returned, in ranks.
_MISSING = 0.1


class _Side:
    """The normal law of a statistic [shadows, n] for each candidate, from the shadows on one side."""

    def __init__(self, values: Rows, on_side: Flags) -> None:
        self.counts = on_side.sum(axis=0).astype(np.float64)
        self.sums = np.where(on_side, values, 0.0).sum(axis=0)
        self.squares = np.where(on_side, values**2, 0.0).sum(axis=0)
        means = self.sums / self.counts
        freedom = max(1.0, float((self.counts - 1).sum()))
        self.center = float(means.mean())
        self.narrowest = (_NARROWEST * float(values.std())) ** 2 + 1e-24
        self.within = max(self.narrowest, float((self.squares - self.counts * means**2).sum()) / freedom)
        self.between = max(0.0, float(means.var()) - self.within * float((1 / self.counts).mean()))

    def log_density(self, values: Rows, removed: Rows | None = None) -> Rows:
        """ln of the predictive density, after one observation of each candidate has been taken out, if `removed` has one."""
        counts, sums, squares = self.counts, self.sums, self.squares
        if removed is not None:
            counts, sums, squares = counts - 1, sums - removed, squares - removed**2
        means = sums / np.maximum(counts, 1.0)
        own = np.maximum(0.0, squares - counts * means**2)
        freedom = np.maximum(counts - 1, 0.0)
        variance = np.maximum(self.narrowest, (_VARIANCE_PRIOR * self.within + own) / (_VARIANCE_PRIOR + freedom))
        # without observations of its own a candidate is one of all: trust 0, and the spread between them
        trust = np.where(counts > 0, self.between / (self.between + variance / np.maximum(counts, 1.0)), 0.0)
        mean = self.center + trust * (means - self.center)
        spread = variance + self.between * (1 - trust)
        return np.asarray(-0.5 * ((values - mean) ** 2 / spread + np.log(spread)))


class LikelihoodRatio:
    """Both laws of a statistic [shadows, n] for every candidate, from who was a member [shadows, n]."""

    def __init__(self, values: Rows, members: Flags) -> None:
        self.inside, self.outside = _Side(values, members), _Side(values, ~members)

    def ratios(self, values: Rows) -> Rows:
        """ln of how much likelier each candidate's value is with it in, for a model that is not among the shadows."""
        return self.inside.log_density(values) - self.outside.log_density(values)

    def ratios_left_out(self, values: Rows, members: Flags) -> Rows:
        """The same for the shadows' own values [shadows, n], without their couple, so that neither side is poorer."""
        partners = values.reshape(-1, 2, values.shape[1])[:, ::-1].reshape(values.shape)
        found: Rows = self.inside.log_density(values, np.where(members, values, partners))
        found -= self.outside.log_density(values, np.where(members, partners, values))
        return found


@dataclass(frozen=True)
class Statistic:
    """One number for every candidate in every model, or for every pair: above 0 where its first document is the likelier member."""

    name: str
    shadows: Rows  # [shadows, n]; where the number is learned from shadows one by one, each shadow's comes from the others
    targets: Rows  # [targets, n]

    @property
    def chances(self) -> Rows:
        """[targets, n]: probabilities of membership, for a statistic that is a log odds."""
        return 1 / (1 + np.exp(-np.clip(self.targets, -_LARGEST_LOGIT, _LARGEST_LOGIT)))


@dataclass(frozen=True)
class Observations:
    """The numbers that attacks look at, of all models of a game: computed once, for any number of attacks."""

    features: tuple[Rows, ...]  # the seven of each candidate, [n, 7] a model, shadows first
    plain: Mapping[str, Rows]  # [models, n], statistics that need no learning; none where an index returns no scores
    members: Flags  # [shadows, n]
    classifier: Logistic  # on the features of all candidates of all shadows

    def statistic(self, name: str, values: Rows) -> Statistic:
        """Of values [models, n]."""
        return Statistic(name, values[: len(self.members)], values[len(self.members) :])


# Of games that are still in use.
_SEEN: WeakKeyDictionary[Game, Observations] = WeakKeyDictionary()


def observe(game: Game, classifier: Logistic | None = None) -> Observations:
    """A game's answers reduced to numbers, kept as long as the game is; with a `classifier` that was fitted on it before, if given."""
    if game in _SEEN and classifier is None:
        return _SEEN[game]
    models = (*game.shadows, *game.targets)
    scored = all(model.scores is not None for model in models)
    expected = game.expected
    features, plain = [], []
    for model in models:
        returned = Returned.of(model.ids, model.scores)
        features.append(features_of(returned, model.scores))
        if scored and model.scores is not None:
            found = {"top score": top_score(model.scores), "match": returned.match(expected)}
            if model.scores.shape[1] > 1:
                found["best sum"] = returned.best_sum()
                found["match but for a shift"] = returned.match_but_for_shift(expected)
            plain.append(found)
    members = memberships(game.shadows)
    _SEEN[game] = seen = Observations(
        tuple(features),
        {name: np.stack([found[name] for found in plain]) for name in (plain[0] if plain else ())},
        members,
        fit_logistic(np.concatenate(features[: len(members)]), members.ravel()) if classifier is None else classifier,
    )
    return seen


def logistic_statistic(seen: Observations) -> Statistic:
    """Log odds by a logistic regression on the seven features of all candidates of all shadows."""
    return seen.statistic("logistic", np.stack([seen.classifier.logits(rows) for rows in seen.features]))


def likelihood_statistics(seen: Observations) -> list[Statistic]:
    """Log likelihood ratios of several statistics, and the log odds of all of them together."""
    plain = [logistic_statistic(seen), *(seen.statistic(name, values) for name, values in seen.plain.items())]
    ratios = [_ratio(statistic, seen.members) for statistic in plain]
    return [*ratios, _together([*plain, *ratios], seen.members)]


def strongest(statistics: Sequence[Statistic], game: Game, fprs: Sequence[float]) -> Statistic:
    """The one that separates best on the shadows, so that the targets are looked at once."""
    if len(statistics) == 1:
        return statistics[0]
    members = memberships(game.shadows)

    def strength(statistic: Statistic) -> float:
        """Mean of the area and of the rates, each above chance in units of a blind attack's deviation."""
        curve = RocCurve.of(statistic.shadows[members], statistic.shadows[~members])
        above = [(curve.tpr_at(fpr) - fpr) / np.sqrt(fpr * (1 - fpr)) for fpr in fprs]
        return float(np.mean([(curve.auc - 0.5) * np.sqrt(12), *above]))

    return max(statistics, key=strength)


def memberships(models: Sequence[Model]) -> Flags:
    """[models, n]: who is in which."""
    return np.stack([model.members for model in models])


def _ratio(statistic: Statistic, members: Flags) -> Statistic:
    fitted = LikelihoodRatio(statistic.shadows, members)
    return Statistic(
        f"ratio of {statistic.name}", fitted.ratios_left_out(statistic.shadows, members),
        np.stack([fitted.ratios(values) for values in statistic.targets]),
    )


def _together(parts: Sequence[Statistic], members: Flags) -> Statistic:
    """A logistic regression on all statistics, their large values damped; it keeps their order."""

    def damped(values: Sequence[Rows]) -> Rows:
        return np.stack([np.sign(one) * np.log1p(np.abs(one)) for one in values], axis=-1)

    shadows, targets = damped([part.shadows for part in parts]), damped([part.targets for part in parts])
    fitted = fit_logistic(shadows.reshape(-1, len(parts)), members.ravel())
    return Statistic("all together", fitted.logits(shadows), fitted.logits(targets))


def released_statistic(game: Game) -> Statistic:
    """For each candidate, ln of how much better than the pool it explains the rows."""
    explained = lambda model: _explained(game.documents, *_rows_of(game, model))
    return _of_models("rows of the index", game.shadows[:KEPT_SHADOWS], game.targets, explained)


def released_pairs(game: Game) -> list[Statistic]:
    """For each pair, ln of how much likelier its row is with the first document; and the row along the difference of the two."""

    def pairs_of(model: Model) -> tuple[Vectors, Law, Vectors, Vectors]:
        rows, receipt = _rows_of(game, model)
        first, second = (game.documents[side] for side in model.pairs.T)
        return rows[model.slots], receipt, first, second

    def ratio(model: Model) -> Rows:
        rows, receipt, first, second = pairs_of(model)
        return log_ratios(rows, first, second, receipt)

    def projection(model: Model) -> Rows:
        rows, _, first, second = pairs_of(model)
        along = np.einsum("md,md->m", rows, first - second, dtype=np.float64)
        middle = np.einsum("md,md->m", first + second, first - second, dtype=np.float64) / 2
        return np.asarray(along - middle)

    models = game.shadows[:KEPT_SHADOWS], game.targets
    return [_of_models("row's log ratio", *models, ratio), _of_models("row's projection", *models, projection)]


def released_claim(game: Game) -> tuple[float, float] | None:
    """(epsilon, delta) of the rows, by their receipts; None without one. Noise on scores or queries does not protect rows."""
    receipts = [_receipt(model.index) for model in game.targets]
    return None if receipts[0] is None else max((receipt.epsilon, receipt.delta) for receipt in receipts if receipt is not None)


def _of_models(name: str, shadows: Sequence[Model], targets: Sequence[Model], of: Callable[[Model], Rows]) -> Statistic:
    return Statistic(name, *(np.stack([of(one) for one in models]) for models in (shadows, targets)))


def _explained(candidates: Vectors, rows: Vectors, receipt: Law) -> Rows:
    total = np.zeros(len(candidates))
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        table = log_densities(rows[first : first + _ROWS_AT_ONCE], candidates, receipt)
        table -= table.max(axis=1, keepdims=True)
        np.exp(table, out=table)
        table /= table.mean(axis=1, keepdims=True)
        total += table.sum(axis=0)
    return np.log(np.maximum(total / len(rows), _SMALLEST))


def _rows_of(game: Game, model: Model) -> tuple[Vectors, Law]:
    vectors = getattr(model.index, "vectors", None)
    if vectors is None:
        raise ValueError("the index must have vectors() for attack='released'")
    rows = np.asarray(vectors(), np.float32)
    if rows.ndim != 2 or rows.shape[1] != game.documents.shape[1]:
        raise ValueError(
            f"vectors() of the index must have {game.documents.shape[1]} columns, got shape {rows.shape}: "
            "an index behind a public map needs an attribute projection"
        )
    ids = getattr(model.index, "ids", None)
    if ids is not None:
        rows = rows[np.argsort(np.asarray(ids, np.int64), kind="stable")]
    codebooks = getattr(getattr(model.index, "settings", None), "codebooks", {})
    return rows, law_of(_receipt(model.index), getattr(model.index, "codebook", codebooks.get("documents")))


def _receipt(index: Any) -> RowReceipt | None:
    receipts = getattr(index, "receipts", ())
    return receipts[-1] if receipts else None


@dataclass(frozen=True, kw_only=True)
class EpsilonBound:
    """The bound that guesses prove."""

    epsilon_lower: float  # with probability at least `confidence` the true epsilon, at `delta`, is no smaller
    epsilon_ceiling: float  # the bound that only right guesses would have given
    delta: float
    confidence: float
    pairs: int  # coins that were thrown
    guesses: int  # pairs that were guessed, for the number that gave the best bound
    right: int  # of them
    statistic: str  # what guessed
    queries: int  # queries that a guess used


def pair_statistics(game: Game, statistics: Sequence[Statistic], *, both: bool) -> list[Statistic]:
    """Statistics of each pair, and the score of its own id; with `both` by the queries of both documents, else of the first."""
    found = [_of_pairs(statistic, game, both) for statistic in statistics]
    found.append(_own_id(game, both, shift=False))
    if game.queries.shape[1] > 1 and all(model.scores is not None for model in (*game.shadows, *game.targets)):
        found.append(_own_id(game, both, shift=True))
    return found


def audited_epsilon(game: Game, statistics: Sequence[Statistic], *, delta: float, confidence: float, queries: int) -> EpsilonBound:
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
        delta=delta, confidence=confidence, queries=queries,
    )


def bound_of_guesses(
    name: str, scores: Rows, coins: NDArray[np.intp], shares: Sequence[float], *, delta: float, confidence: float, queries: int
) -> EpsilonBound:
    """The best bound from guessing the surest `shares` of all pairs, each at its part of what confidence leaves."""
    pairs = scores.size
    tried = [(count, _right(scores.ravel(), coins.ravel(), count)) for count in (_guesses(pairs, share) for share in shares)]
    bounds, best, ceiling = bounds_of_guesses(pairs, tried, delta, confidence)
    return EpsilonBound(
        epsilon_lower=bounds[best], epsilon_ceiling=ceiling, delta=delta, confidence=confidence, pairs=pairs,
        guesses=tried[best][0], right=tried[best][1], statistic=name, queries=queries,
    )


def epsilon_from_rates(members: Rows, others: Rows, thresholds: Sequence[float], *, delta: float, confidence: float) -> float:
    """The bound of an adversary that knows no ids: from Clopper-Pearson bounds of its rates at thresholds fixed beforehand.

    The largest of ln((TPR_low - delta) / FPR_high) and ln((1 - FPR_high - delta) / (1 - TPR_low)), or 0, for independent scores.
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
    """sum (s - (a + b) / 2) (a - b) of the pair's id, the log likelihood ratio of Gaussian noise; `shift` centers first."""
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

    return _of_models("own id but for a shift" if shift else "own id", game.shadows, game.targets, of)


def _centered(values: Rows, there: NDArray[np.bool_]) -> Rows:
    mean = np.where(there, values, 0.0).sum(axis=1) / np.maximum(there.sum(axis=1), 1)
    return np.where(there, values - mean[:, None], 0.0)


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
