"""Classifiers of vectors from many people's labelled rows: class centroids, and a linear classifier trained in a few noisy steps."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._native.products import inner_products
from hushvec._util import validate
from hushvec._util.display import Sheet, plural, shown
from hushvec.aggregates.models import LinearModel
from hushvec.aggregates.moments import MEAN_SHARE, shrunk
from hushvec.aggregates.rows import PrivateRows, directions, unit
from hushvec.aggregates.spending import Terms
from hushvec.aggregates.totals import MOST_COLUMNS, GroupTotals, ProductTotals, blocks, moment_unit, whole_rows
from hushvec.extend import release_sheet
from hushvec.receipts import AggregateReceipt
from hushvec.receipts.aggregates import MOST_STATISTICS

_Kind = TypeVar("_Kind", bound="LinearClassifier")
_Values = NDArray[np.float64]

# Chosen on public collections (docs/aggregates.md), never on the rows at hand.
STEPS = 8
_RESIDUAL_NORM = 0.3
_HEAT = 0.5


@shown
class LinearClassifier(LinearModel):
    """Linear scores of the directions of rows around a mean; the label with the largest one is the answer.

    Made by `private_classifier` or `load`. What it computes is post-processing of its release: any number of questions is free.

    Args:
        classes_: the k labels.
        mean_: float32 [d], taken off every row of unit length; what is left is brought to unit length again.
        coef_: float32 [k, d], rows of unit length.
        receipt: the guarantee for the people whose rows it was made of.
        heat: probabilities are softmax(heat * scores).
    """

    def __init__(
        self, classes: Sequence[Hashable], mean: NDArray[Any], coef: NDArray[Any], receipt: AggregateReceipt, *, heat: float
    ) -> None:
        self.classes_ = _array(classes)
        self.mean_ = np.array(mean, np.float32)
        self.coef_ = np.array(coef, np.float32)
        self.receipt = receipt
        self.heat = validate.positive("heat", heat)
        if self.coef_.shape != (len(self.classes_), len(self.mean_)):
            raise ValueError(f"coef must have shape {(len(self.classes_), len(self.mean_))}, got {self.coef_.shape}")

    def decision_function(self, rows: Any) -> NDArray[np.float32]:
        """Return scores of every label, float32 [n, k], in [-1, 1]: cosines of the row's direction around the mean with the label's.

        ValueError for NaN or Inf in the rows, [n, d] or one row [d], and for another number of columns.
        """
        mean = self.mean_.astype(np.float64)
        scores = [inner_products(directions(unit(block), mean), self.coef_) for block in blocks(self._given(rows), len(self.classes_))]
        return np.concatenate([np.empty((0, len(self.classes_)), np.float32), *scores])

    def predict(self, rows: Any) -> NDArray[Any]:
        """The most likely label of each row, [n] of the dtype of `classes_`."""
        return np.asarray(self.classes_[self.decision_function(rows).argmax(axis=1)])

    def predict_proba(self, rows: Any) -> _Values:
        """Probabilities of the labels, float64 [n, k]: softmax(heat * scores). They rank well; they are not calibrated."""
        return _softmax(self.heat * self.decision_function(rows).astype(np.float64))

    def score(self, rows: Any, labels: Any) -> float:
        """The share of rows whose label is predicted."""
        return float(np.mean(self.predict(rows) == np.asarray(labels)))

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        labels = self.classes_.tolist()
        if not all(type(label) in (str, int) for label in labels):
            raise TypeError("labels must be str or int to be saved")
        return {"heat": self.heat, "classes": labels}, {"mean": self.mean_, "coef": self.coef_}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.classes_)} labels, {len(self.mean_)} columns, is_dp_claim={self.receipt.is_dp_claim})"

    def _sheet(self) -> Sheet:
        return release_sheet(f"a classifier of {plural(len(self.classes_), 'label')}", self.receipt)


class CentroidClassifier(LinearClassifier):
    """A `LinearClassifier` whose rows of `coef_` are the directions of noisy class centroids. Made by `class_centroids` or `load`."""


def class_centroids(rows: Any, groups: Any = None, *, labels: Any, epsilon: float, delta: float, **terms: Any) -> CentroidClassifier:
    """A classifier by the nearest class centroid, from two passes over many people's labelled rows.

    Only directions count: rows are brought to unit length. Their mean is released first, for a twentieth of mu^2; then the sums by
    class of the rows' directions around it. No clipping norm has to be chosen. `private_classifier` is more accurate, and slower.

    Args:
        groups: n labels; left out with `RowsInParts`, which have theirs.
        rows, labels, epsilon, delta and terms: as in `private_sums`.

    Raises:
        ValueError, PrivacyBudgetExhaustedError: as `private_sums`; nothing is charged.

    Guarantees:
        (epsilon, delta)-DP for one person with all their rows, their labels included, exact as sampled.

    Reference:
        docs/proofs/aggregates.md; docs/aggregates.md has accuracies on two collections.
    """
    given = _labelled(rows, groups, labels, Terms(epsilon, delta, **terms), "class centroids")
    return steps_of(given, 0, CentroidClassifier)


def private_classifier(
    rows: Any, groups: Any = None, *, labels: Any, epsilon: float, delta: float, steps: int = STEPS, **terms: Any
) -> LinearClassifier:
    """A linear classifier of many people's labelled rows: class centroids, then a few noisy steps of logistic regression.

    The mean is as in `class_centroids`; the class sums and each step get equal shares of the rest of mu^2. In a step a person adds
    r z^T, z the direction of the row and r its label's indicator less the probabilities so far, clipped to 0.3.

    Args:
        steps: how many, >= 0. The default was chosen on public data and is good from epsilon 1/4 to 8.
        rows, groups, labels, epsilon, delta and terms: as in `class_centroids`.

    Raises:
        ValueError: as `class_centroids`; more than 62 steps.

    Guarantees:
        As `class_centroids`: the matrices r z^T are of norm 0.3 at most, and are added as integers.

    Reference:
        Bassily, Smith, Thakurta (2014), for noisy gradients; docs/proofs/aggregates.md.

    Example:
        >>> import numpy as np
        >>> from hushvec.aggregates import private_classifier
        >>> rows, topics = np.eye(4)[[0, 1] * 2000], [0, 1] * 2000
        >>> len(private_classifier(rows, topics, labels=2, epsilon=1.0, delta=1e-5).receipt.statistics)
        10
    """
    count = validate.whole_number("steps", steps, at_least=0)
    if count > MOST_STATISTICS - 2:
        raise ValueError(f"steps must be at most {MOST_STATISTICS - 2}, got {count}")
    return steps_of(_labelled(rows, groups, labels, Terms(epsilon, delta, **terms), "linear classifier"), count, LinearClassifier)


def _labelled(rows: Any, groups: Any, labels: Any, terms: Terms, what: str) -> PrivateRows:
    given = PrivateRows(rows, terms, what, groups, labels)
    require_classes(given)
    return given


def require_classes(given: PrivateRows) -> None:
    """ValueError for fewer than 2 labels, or too many columns."""
    if given.names is None or len(given.names) < 2:
        raise ValueError(f"labels must be at least 2, got {len(given.names or ())}")
    if given.dimension > MOST_COLUMNS:
        raise ValueError(f"rows must have at most 2^17 columns, got {given.dimension}")


def steps_of(given: PrivateRows, steps: int, kind: type[_Kind]) -> _Kind:
    """As `private_classifier`, for all that is left to spend."""
    spending, names = given.spending, given.names or ()
    mean, noise, _ = given.mean(1.0, MEAN_SHARE, unit)
    # shrunk as its noise asks for: far less noise from few rows; and as the classifier keeps it
    mean = shrunk(mean, noise).astype(np.float32).astype(np.float64)
    share, heat = (1 - MEAN_SHARE) / (steps + 1), _heat(given.dimension, len(names))
    total = given.total(partial(_class_sums, mean=mean, classes=len(names)))
    purpose = "directions around the mean, by class"
    noise_of = spending.sums(purpose, len(names), given.dimension, 1.0, share if steps else None, counts=False)
    weights = spending.noisy(total, _core.sum_unit(1.0), noise_of.sigma)
    whole = given.changed(partial(_whole_directions, mean=mean)) if steps else given
    for step in range(1, steps + 1):
        total = whole.total(partial(_step, coef=unit(weights).astype(np.float32), heat=heat * moment_unit(1.0)))
        purpose = f"step {step} of {steps}: residuals times directions"
        sigma = spending.sums(purpose, 1, weights.size, _RESIDUAL_NORM, share if step < steps else None, counts=False).sigma
        noisy = spending.noisy(total, moment_unit(_RESIDUAL_NORM) * moment_unit(1.0), sigma)
        weights += noisy / (_RESIDUAL_NORM * math.sqrt(step))
    return kind(names, mean, unit(weights), spending.receipt(given.count), heat=heat)


def _class_sums(rows: Any, codes: NDArray[np.uint32], *, mean: _Values, classes: int) -> NDArray[np.int64]:
    totals = GroupTotals(classes, rows.shape[1], 1.0)
    totals.add(directions(unit(rows), mean), codes)
    return totals.sums()


def _whole_directions(rows: Any, mean: _Values) -> NDArray[np.float32]:
    """Directions around the mean in whole units."""
    return whole_rows(directions(unit(rows), mean), 1.0)


def _step(whole: NDArray[np.float32], codes: NDArray[np.uint32], *, coef: NDArray[np.float32], heat: float) -> NDArray[np.int64]:
    """The sum of r z^T over a block."""
    totals = ProductTotals(len(coef), whole.shape[1], _RESIDUAL_NORM)
    totals.add_whole(whole_rows(_residuals(whole, codes, coef, heat), _RESIDUAL_NORM), whole)
    return totals.total()


def _residuals(turned: NDArray[np.float32], codes: NDArray[np.uint32], weights: NDArray[np.float32], heat: float) -> _Values:
    """Indicators of the labels less their probabilities, float64 [n, k]. A row of them depends on that row alone.

    Columns are filled up to a multiple of 16, so that a vector register never holds elements of two rows.
    """
    classes = len(weights)
    scores = np.full((len(turned), -(-classes // 16) * 16), -np.inf)
    scores[:, :classes] = heat * inner_products(turned, weights).astype(np.float64)
    residuals = -_softmax(scores)
    residuals[np.arange(len(codes)), codes] += 1
    return residuals[:, :classes]


def _array(labels: Sequence[Hashable]) -> NDArray[Any]:
    """Labels as they are: numpy would make "1" of 1 beside "a", a float of 2^63 beside -1, and rows of tuples."""
    items = [label.item() if isinstance(label, np.generic) else label for label in labels]
    if all(isinstance(item, (str, int, float)) for item in items):
        plain = np.asarray(items)
        if [(type(item), item) for item in plain.tolist()] == [(type(item), item) for item in items]:
            return plain
    array = np.empty(len(items), object)
    for place, item in enumerate(items):
        array[place] = item
    return array


def _softmax(scores: _Values) -> _Values:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _heat(dimension: int, classes: int) -> float:
    """Directions of d elements have cosines of about d^(-1/2) by chance, and the largest of k about sqrt(2 ln k) times that."""
    return _HEAT * math.sqrt(dimension * math.log(classes))

