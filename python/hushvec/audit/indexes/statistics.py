"""Numbers that membership attacks judge candidates by, each large for members: learned from shadows, applied to targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from hushvec.audit.indexes.curves import RocCurve
from hushvec.audit.indexes.features import Returned, Scores, features_of, top_score
from hushvec.audit.indexes.likelihood import LikelihoodRatio
from hushvec.audit.indexes.logistic import Logistic, fit_logistic
from hushvec.audit.indexes.shadows import Game, Model

Rows = NDArray[np.float64]
Flags = NDArray[np.bool_]

_LARGEST_LOGIT = 700.0


@dataclass(frozen=True)
class Statistic:
    """One number for every candidate in every model.

    Args:
        name: of the statistic.
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
    """What attacks look at, of all models of a game: computed once, for any number of attacks.

    Args:
        features: the seven of each candidate, [n, 7] a model, shadows first.
        plain: name -> [models, n], statistics that nothing has to be learned for; none where an index returns no scores.
        members: [shadows, n].
        classifier: logistic regression on the features of all candidates of all shadows.
    """

    features: tuple[Rows, ...]
    plain: Mapping[str, Rows]
    members: Flags
    classifier: Logistic


# Of games that are still in use.
_SEEN: WeakKeyDictionary[Game, Observations] = WeakKeyDictionary()


def observe(game: Game, classifier: Logistic | None = None) -> Observations:
    """A game's answers reduced to numbers, kept as long as the game is.

    Args:
        classifier: one that was fitted on this game before; None: fit one, if none was seen yet.
    """
    if game not in _SEEN or classifier is not None:
        _SEEN[game] = _observed(game, classifier)
    return _SEEN[game]


def _observed(game: Game, classifier: Logistic | None) -> Observations:
    models = (*game.shadows, *game.targets)
    scored = all(model.scores is not None for model in models)
    expected = game.expected
    features, plain = [], []
    for model in models:
        returned = Returned.of(model.ids, model.scores)
        features.append(features_of(returned, model.scores))
        if scored and model.scores is not None:
            plain.append(_of_scores(returned, model.scores, expected))
    names = plain[0] if plain else ()
    members = memberships(game.shadows)
    return Observations(
        tuple(features),
        {name: np.stack([found[name] for found in plain]) for name in names},
        members,
        fit_logistic(np.concatenate(features[: len(members)]), members.ravel()) if classifier is None else classifier,
    )


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


def _of_scores(returned: Returned, scores: Scores, expected: Scores) -> dict[str, Rows]:
    found = {"top score": top_score(scores), "match": returned.match(expected)}
    if scores.shape[1] > 1:
        found["best sum"] = returned.best_sum()
        found["match but for a shift"] = returned.match_but_for_shift(expected)
    return found


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
    shadows = np.stack([_damped(part.shadows) for part in parts], axis=-1)
    targets = np.stack([_damped(part.targets) for part in parts], axis=-1)
    fitted = fit_logistic(shadows.reshape(-1, len(parts)), members.ravel())
    return Statistic("all together", fitted.logits(shadows), fitted.logits(targets))


def _damped(values: Rows) -> Rows:
    damped: Rows = np.sign(values) * np.log1p(np.abs(values))
    return damped
