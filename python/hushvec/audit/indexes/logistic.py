"""Logistic regression in numpy: ridge, Newton's method, features brought to mean 0 and deviation 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushvec._native.products import product

Rows = NDArray[np.float64]

RIDGE = 1.0
_STEPS = 50
_LARGEST_LOGIT = 30.0
_ENOUGH = 1e-10


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
        chance = 1 / (1 + np.exp(-_clipped(product(design, weights))))
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


def _clipped(logits: Rows) -> Rows:
    return np.clip(logits, -_LARGEST_LOGIT, _LARGEST_LOGIT)
