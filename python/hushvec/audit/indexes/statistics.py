"""Numbers that membership attacks judge candidates by, each large for members: learned from shadows, applied to targets.

The likelihood-ratio attack (LiRA) asks whether a candidate's statistic is more likely with it in the index, or without it. For each
candidate the shadow models give the statistic's law with and without it, as two normal laws. Few shadows tell little about one
candidate, so means are shrunk towards the mean of all candidates, and variances towards the pooled one (empirical Bayes); with many
shadows both become the candidate's own.

The attack on the rows themselves needs no search: anyone who holds a private index reads them, and their law is public, so likelihoods
are exact. One adversary knows the pool and asks how many rows a candidate would explain that the pool does not: the mean over the rows
of p(row | candidate) / mean over the pool of p(row | document). The other knows all but a coin: it has one row and two candidates, and
p(row | first) / p(row | second) is the best statistic there is (Neyman and Pearson). It guesses for the lower bound on epsilon.

Reference:
    Carlini, Chien, Nasr, Song, Terzis, Tramer, "Membership inference attacks from first principles" (2022), algorithm 1;
    Efron and Morris, "Stein's estimation rule and its competitors" (1973), for the means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from hushvec._native.products import product
from hushvec.audit.indexes.curves import RocCurve
from hushvec.audit.indexes.features import Returned, Vectors, features_of, top_score
from hushvec.audit.indexes.row_laws import log_densities, log_ratios
from hushvec.audit.indexes.shadows import KEPT_SHADOWS, Game, Model
from hushvec.receipts.vectors import Receipt

Rows = NDArray[np.float64]
Flags = NDArray[np.bool_]

# The pooled variance counts as so many of a candidate's own observations.
_VARIANCE_PRIOR = 16.0
# No law is narrower than this share of the statistic's whole spread.
_NARROWEST = 1e-6


@dataclass(frozen=True)
class _Side:
    """Sums over the shadows on one side, "in" or "out"."""

    counts: Rows
    sums: Rows
    squares: Rows
    center: float
    between: float
    within: float
    narrowest: float

    @classmethod
    def of(cls, values: Rows, on_side: Flags) -> _Side:
        counts = on_side.sum(axis=0).astype(np.float64)
        sums = np.where(on_side, values, 0.0).sum(axis=0)
        squares = np.where(on_side, values**2, 0.0).sum(axis=0)
        means = sums / counts
        freedom = max(1.0, float((counts - 1).sum()))
        narrowest = (_NARROWEST * float(values.std())) ** 2 + 1e-24
        within = max(narrowest, float((squares - counts * means**2).sum()) / freedom)
        between = max(0.0, float(means.var()) - within * float((1 / counts).mean()))
        return cls(counts, sums, squares, float(means.mean()), between, within, narrowest)

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
        density: Rows = -0.5 * ((values - mean) ** 2 / spread + np.log(spread))
        return density


@dataclass(frozen=True)
class LikelihoodRatio:
    """Both laws of a statistic for every candidate."""

    inside: _Side  # from the shadows with the candidate in
    outside: _Side  # from those without it

    @classmethod
    def fit(cls, values: Rows, members: Flags) -> LikelihoodRatio:
        """From the statistic [shadows, n] and who was a member [shadows, n]."""
        return cls(_Side.of(values, members), _Side.of(values, ~members))

    def ratios(self, values: Rows) -> Rows:
        """ln of how much likelier each candidate's value is with it in, for a model that is not among the shadows."""
        found: Rows = self.inside.log_density(values) - self.outside.log_density(values)
        return found

    def ratios_left_out(self, values: Rows, members: Flags) -> Rows:
        """The same for the shadows' own values [shadows, n], each judged without its couple.

        Shadows 2 i and 2 i + 1 have opposite members: without both, either side has lost one observation of each candidate.
        Without one of them the side that is true would be the poorer one, and the ratio would know it.
        """
        partners = values.reshape(-1, 2, values.shape[1])[:, ::-1].reshape(values.shape)
        found: Rows = self.inside.log_density(values, np.where(members, values, partners))
        found -= self.outside.log_density(values, np.where(members, partners, values))
        return found


RIDGE = 1.0
_STEPS = 50
_LARGEST_STEP_LOGIT, _LARGEST_LOGIT = 30.0, 700.0
_ENOUGH = 1e-10
# Rows compared with the pool at once: 1,000 x 10,000 log densities are 80 MB.
_ROWS_AT_ONCE = 1000
# Candidates that explain no row at all are all alike.
_SMALLEST = 1e-300


@dataclass(frozen=True)
class Logistic:
    """A fitted model: logit = (features - mean) / spread @ weights + intercept, with a spread of 1 where a feature never varied."""

    mean: Rows
    spread: Rows
    weights: Rows
    intercept: float

    def logits(self, features: Rows) -> Rows:
        """Log odds of each row."""
        scaled = self.weights / self.spread
        found: Rows = product(features - self.mean, scaled) + self.intercept
        return found


def fit_logistic(features: Rows, truth: NDArray[np.bool_], *, ridge: float = RIDGE) -> Logistic:
    """The weights that minimize the negative log likelihood + ridge/2 times their squared length; the intercept is not penalized.

    `ridge` is C = 1 / ridge of scikit-learn's LogisticRegression. Both values of `truth` must occur.
    """
    mean, spread = features.mean(axis=0), features.std(axis=0)
    spread = np.where(spread > 1e-12 * np.maximum(1.0, np.abs(mean)), spread, 1.0)
    design = np.concatenate([(features - mean) / spread, np.ones((len(features), 1))], axis=1)
    penalty = np.append(np.full(features.shape[1], ridge), 0.0)
    weights = np.zeros(design.shape[1])
    loss = _loss(design, truth, penalty, weights)
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(product(design, weights), -_LARGEST_STEP_LOGIT, _LARGEST_STEP_LOGIT)))
        gradient = product(design.T, chance - truth) + penalty * weights
        curvature = product((design * (chance * (1 - chance))[:, None]).T, design) + np.diag(penalty + 1e-9)
        step = np.linalg.solve(curvature, gradient)
        weights, loss, gained = _shortened(design, truth, penalty, weights, step, loss)
        if gained <= _ENOUGH * max(1.0, abs(loss)):
            break
    return Logistic(mean, spread, weights[:-1], float(weights[-1]))


def _shortened(
    design: Rows, truth: NDArray[np.bool_], penalty: Rows, weights: Rows, step: Rows, loss: float
) -> tuple[Rows, float, float]:
    """Newton's step, halved until the loss falls: (weights, loss, what was gained)."""
    length = 1.0
    while length > 1e-6:
        further = weights - length * step
        reached = _loss(design, truth, penalty, further)
        if reached <= loss:
            return further, reached, loss - reached
        length /= 2
    return weights, loss, 0.0


def _loss(design: Rows, truth: NDArray[np.bool_], penalty: Rows, weights: Rows) -> float:
    logits = product(design, weights)
    return float(np.logaddexp(0.0, logits).sum() - logits[truth].sum() + 0.5 * (penalty * weights) @ weights)


@dataclass(frozen=True)
class Statistic:
    """One number for every candidate in every model, or for every pair: above 0 where its first document is the likelier member.

    Args:
        shadows: [shadows, n]; where the number is learned from shadows one by one, each shadow's comes from the others.
        targets: [targets, n].
    """

    name: str
    shadows: Rows
    targets: Rows

    @property
    def chances(self) -> Rows:
        """[targets, n]: probabilities of membership, for a statistic that is a log odds."""
        chances: Rows = 1 / (1 + np.exp(-np.clip(self.targets, -_LARGEST_LOGIT, _LARGEST_LOGIT)))
        return chances


@dataclass(frozen=True)
class Observations:
    """The numbers that attacks look at, of all models of a game: computed once, for any number of attacks."""

    features: tuple[Rows, ...]  # the seven of each candidate, [n, 7] a model, shadows first
    plain: Mapping[str, Rows]  # [models, n], statistics that need no learning; none where an index returns no scores
    members: Flags  # [shadows, n]
    classifier: Logistic  # on the features of all candidates of all shadows


# Of games that are still in use.
_SEEN: WeakKeyDictionary[Game, Observations] = WeakKeyDictionary()


def observe(game: Game, classifier: Logistic | None = None) -> Observations:
    """A game's answers reduced to numbers, kept as long as the game is.

    Args:
        classifier: one that was fitted on this game before; None: fit one, if none was seen yet.
    """
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
    return _split("logistic", np.stack([seen.classifier.logits(rows) for rows in seen.features]), len(seen.members))


def likelihood_statistics(seen: Observations) -> list[Statistic]:
    """Log likelihood ratios of several statistics, and the log odds of all of them together."""
    plain = [_split(name, values, len(seen.members)) for name, values in seen.plain.items()]
    plain = [logistic_statistic(seen), *plain]
    ratios = [_ratio(statistic, seen.members) for statistic in plain]
    return [*ratios, _together([*plain, *ratios], seen.members)]


def strongest(statistics: Sequence[Statistic], game: Game, fprs: Sequence[float]) -> Statistic:
    """The one that separates best on the shadows, so that the targets are looked at once."""
    if len(statistics) == 1:
        return statistics[0]
    members = memberships(game.shadows)
    return max(
        statistics, key=lambda statistic: _strength(RocCurve.of(statistic.shadows[members], statistic.shadows[~members]), fprs)
    )


def memberships(models: Sequence[Model]) -> Flags:
    """[models, n]: who is in which."""
    return np.stack([model.members for model in models])


def _strength(curve: RocCurve, fprs: Sequence[float]) -> float:
    """Mean of the area and of the rates, each above chance in units of a blind attack's deviation."""
    above = [(curve.tpr_at(fpr) - fpr) / np.sqrt(fpr * (1 - fpr)) for fpr in fprs]
    return float(np.mean([(curve.auc - 0.5) * np.sqrt(12), *above]))


def _split(name: str, values: Rows, shadows: int) -> Statistic:
    return Statistic(name, values[:shadows], values[shadows:])


def _ratio(statistic: Statistic, members: Flags) -> Statistic:
    fitted = LikelihoodRatio.fit(statistic.shadows, members)
    return Statistic(
        f"ratio of {statistic.name}",
        fitted.ratios_left_out(statistic.shadows, members),
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
    return _of_models("rows of the index", game, lambda model: _explained(game.documents, *_rows_of(game, model)))


def released_pairs(game: Game) -> list[Statistic]:
    """For each pair, ln of how much likelier its row is with the first document; and the row along the difference of the two."""

    def pairs_of(model: Model) -> tuple[Vectors, Receipt | None, Vectors, Vectors]:
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

    return [_of_models("row's log ratio", game, ratio), _of_models("row's projection", game, projection)]


def released_claim(game: Game) -> tuple[float, float] | None:
    """(epsilon, delta) of the rows, by their receipts; None without one. Noise on scores or queries does not protect rows."""
    receipts = [_receipt(model.index) for model in game.targets]
    return None if receipts[0] is None else max((receipt.epsilon, receipt.delta) for receipt in receipts if receipt is not None)


def _of_models(name: str, game: Game, of: Callable[[Model], Rows]) -> Statistic:
    return Statistic(name, *(np.stack([of(one) for one in models]) for models in (game.shadows[:KEPT_SHADOWS], game.targets)))


def _explained(candidates: Vectors, rows: Vectors, receipt: Receipt | None) -> Rows:
    total = np.zeros(len(candidates))
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        table = log_densities(rows[first : first + _ROWS_AT_ONCE], candidates, receipt)
        table -= table.max(axis=1, keepdims=True)
        np.exp(table, out=table)
        table /= table.mean(axis=1, keepdims=True)
        total += table.sum(axis=0)
    explained: Rows = np.log(np.maximum(total / len(rows), _SMALLEST))
    return explained


def _rows_of(game: Game, model: Model) -> tuple[Vectors, Receipt | None]:
    """The rows of an index in the order of their ids, and their receipt."""
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
    return rows, _receipt(model.index)


def _receipt(index: Any) -> Receipt | None:
    receipts = getattr(index, "receipts", ())
    return receipts[-1] if receipts else None
