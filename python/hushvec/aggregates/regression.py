"""Linear regression on many people's rows, trained in a few noisy steps behind noisy second moments."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._native.products import inner_products
from hushvec._native.rowwise import given_rows, require_finite, unit_rows
from hushvec._util import validate
from hushvec._util.display import Sheet, plural, shown
from hushvec.aggregates.models import LinearModel
from hushvec.aggregates.moments import noisy_moments, shrunk
from hushvec.aggregates.rows import PrivateRows, RowsInParts
from hushvec.aggregates.spending import Spending, Terms
from hushvec.aggregates.totals import GroupTotals, MomentTotals, ProductTotals, blocks, on_host
from hushvec.extend import release_sheet
from hushvec.noise import clip
from hushvec.receipts import AggregateReceipt

_Values = NDArray[np.float64]

# Chosen on public collections (docs/aggregates.md), never on the rows at hand.
_STEPS, _EARLY = 16, 4  # coefficients after the early step are a candidate too, for where little can be learned
_MOMENTUM, _RESIDUAL = 0.6, 0.7  # residuals are clipped, in standard deviations of the targets
_SHARE = 0.1  # of mu^2: for means and scales, for second moments, and for the last fit; the steps have the rest
_BESIDE = 0.5  # how much a target and the squares count in the first sums
_LENGTH = math.sqrt(1 + 3 * _BESIDE**2)  # of a row of them, at most


@shown
class LinearRegressor(LinearModel):
    """A linear function of rows: rows @ coef_ + intercept_.

    Made by `private_regression` or `load`. Predictions are post-processing of its release: any number of them is free.

    Args:
        coef_: float64 [d].
        intercept_: the prediction of a row of zeros.
        mean_: float64 [d], the noisy mean of the rows. Predictions do not need it.
        receipt: the guarantee for the people whose rows it was made of.
    """

    def __init__(self, coef: NDArray[Any], intercept: float, mean: NDArray[Any], receipt: AggregateReceipt) -> None:
        self.coef_ = np.array(coef, np.float64)
        self.intercept_ = validate.number("intercept", intercept)
        self.mean_ = np.array(mean, np.float64)
        self.receipt = receipt
        if self.coef_.ndim != 1 or self.coef_.shape != self.mean_.shape:
            raise ValueError(f"coef and mean must have one shape [d], got {self.coef_.shape} and {self.mean_.shape}")

    def predict(self, rows: Any) -> _Values:
        """float64 [n], of finite rows [n, d] or one row [d]. ValueError for another number of columns."""
        given = (np.asarray(on_host(block), np.float64) for block in blocks(self._given(rows)))
        return np.concatenate([np.empty(0), *(inner_products(block, self.coef_[None])[:, 0] + self.intercept_ for block in given)])

    def score(self, rows: Any, targets: Any) -> float:
        """R^2: 1 less the mean squared error over the variance of the targets, which must not all be equal."""
        found, predicted = np.asarray(on_host(targets), np.float64), self.predict(rows)
        if found.shape != predicted.shape:
            raise ValueError(f"targets must have shape {predicted.shape}, got {found.shape}")
        return float(1 - np.mean((found - predicted) ** 2) / np.var(found))

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return {"intercept": self.intercept_}, {"coef": self.coef_, "mean": self.mean_}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({plural(len(self.coef_), 'column')}, is_dp_claim={self.receipt.is_dp_claim})"

    def _sheet(self) -> Sheet:
        return release_sheet(f"a linear regression on {plural(len(self.coef_), 'column')}", self.receipt)


def private_regression(
    rows: Any, targets: Any, *, low: float, high: float, epsilon: float, delta: float, clip_norm: float = 1.0, **terms: Any
) -> LinearRegressor:
    """A linear regression of many people's targets on their rows.

    Means and scales are released first, then second moments of rows, then 16 noisy sums of residuals times rows, which the moments
    turn into steps. Last, the targets are fitted on the predictions of two of the steps.

    Args:
        targets: n numbers.
        low, high: the public range of targets, in [-2^100, 2^100]; they are clipped to it. A far wider one costs accuracy.
        rows, epsilon, delta, terms, and clip_norm for the mean: as in `private_sums`.

    Raises:
        ValueError: as `private_sums`; more than 2^26 rows.

    Guarantees:
        (epsilon, delta)-DP for one person with all their rows, their targets included, exact as sampled.

    Edge cases:
        Columns of one size are learned best: divide each by a public scale. Rows far from the mean count less.

    Reference:
        Bassily, Smith, Thakurta (2014): noisy gradients; Wang (2018): noisy moments; docs/proofs/aggregates.md.

    Example:
        >>> import numpy as np
        >>> from hushvec.aggregates import private_regression
        >>> rows = np.random.default_rng(0).normal(size=(4000, 8)) / 3
        >>> model = private_regression(rows, 50 + 20 * rows[:, 0], low=0, high=100, epsilon=1.0, delta=1e-5)
        >>> model.score(rows, 50 + 20 * rows[:, 0]) > 0.8
        True
    """
    norm, least, most = validate.clip_norm(clip_norm), validate.number("low", low), validate.number("high", high)
    if not -(2.0**100) <= least < most <= 2.0**100:
        raise ValueError(f"low must be below high, both in [-2^100, 2^100], got {least!r} and {most!r}")
    if isinstance(rows, RowsInParts):
        raise TypeError("rows must be an array: a regression does not read rows in parts")
    values = given_rows("targets", targets, finite=False).values
    given = PrivateRows(rows, Terms(epsilon, delta, **terms), "linear regression")
    count = len(given.rows if given.kept is None else given.kept)  # as given, before rows were dropped
    if values.ndim != 1 or len(values) != count:
        raise ValueError(f"targets must be {count} numbers, one for each row, got shape {tuple(values.shape)}")
    known = np.asarray(on_host(values), np.float64)[... if given.kept is None else given.kept, None]
    require_finite("targets", known)
    middle, half = (most + least) / 2, (most - least) / 2
    scaled = (np.clip(known, least, most) - middle) / half
    of_counts, (of_sums, *of_steps, of_fit) = _planned(given.spending, given.dimension, norm)
    center = _center(given, scaled, norm, of_sums, of_counts)
    constant, weights = _last_fit(given, scaled, center, _candidates(given, scaled, center, of_steps), of_fit)
    coef = half * center.spread / center.radius * weights
    intercept = middle + half * (center.target + center.spread * constant) - float(coef @ center.mean)
    return LinearRegressor(coef, intercept, center.mean, given.spending.receipt(len(given.rows)))


class _Center(NamedTuple):  # where rows and targets are, and how far they spread; of targets on [-1, 1]
    mean: _Values
    radius: float
    target: float
    spread: float
    rows: float


def _planned(spending: Spending, columns: int, norm: float) -> tuple[float | None, list[float]]:
    """Deviations of all noise, of the count and of what is drawn beside it: what is out of range is refused before the charge."""
    counts = not spending.counts_are_public
    first = spending.sums("sums of rows, targets and squares", 1, columns + 3, norm * _LENGTH, _SHARE, counts=counts)
    sigmas = [first.sigma, spending.moments("second moments of rows around the mean", columns, 1.0, _SHARE)]
    names, share = [f"step {step} of {_STEPS}: residuals times rows" for step in range(1, _STEPS + 1)], (1 - 3 * _SHARE) / _STEPS
    sigmas += [spending.sums(name, 1, columns, _RESIDUAL, share, counts=False).sigma for name in names]
    return first.count_sigma, [*sigmas, spending.moments("second moments of targets and predictions", 4, 2.0, None)]


def _center(given: PrivateRows, targets: _Values, norm: float, sigma: float, count_sigma: float | None) -> _Center:
    """Noisy means of clipped rows, of targets and of the squares of both. The first draw, hence the charge."""
    spending, columns = given.spending, given.dimension
    totals = GroupTotals(1, columns + 3, norm * _LENGTH)
    for block, part in zip(blocks(given.rows), blocks(targets, given.dimension), strict=True):
        rows = clip(np.asarray(on_host(block), np.float64), norm)
        totals.add(np.hstack([rows, _BESIDE * norm * np.hstack([part, part**2, _squares(rows / norm)])]), None)
    spending.charge()
    sums = spending.noisy(totals.sums(), totals.unit, sigma)[0]
    count = max(float(spending.noisy_counts(totals.counts, count_sigma)[0]), 1.0)
    mean = clip(shrunk(sums[:columns], sigma) / count, norm)
    target, square, length = np.clip(sums[columns:] / (_BESIDE * norm * count), (-1, 0, 0), 1)
    error = sigma / (_BESIDE * norm * count)  # of a square: no spread below is seen
    spread = math.sqrt(min(1.0, max(square - target**2, error, 2.0**-20)))
    radius = max(norm * math.sqrt(min(1.0, max(length - float(mean @ mean) / norm**2, error, 2.0**-20))), 2.0**-100)
    return _Center(mean, radius, float(target), spread, count)


def _candidates(given: PrivateRows, targets: _Values, center: _Center, sigmas: list[float]) -> _Values:
    """Coefficients after an early and after the last step, [2, d], scaled so that their predictions have a spread of about 1."""
    spending, columns = given.spending, given.dimension
    moments = MomentTotals(columns, 1.0)
    for rows, _, _ in _weighted(given, targets, center):
        moments.add(rows)
    values, vectors = np.linalg.eigh(noisy_moments(spending, moments.total(), 1.0, sigmas[0]))
    values = np.maximum(values, 0)
    curvature = values + sigmas[0] * math.sqrt(2 * columns)  # above that without noise: no step is too long
    coef, pace, kept = np.zeros(columns), np.zeros(columns), []
    for step in range(1, _STEPS + 1):
        totals = ProductTotals(1, columns, _RESIDUAL)
        for rows, part, _ in _weighted(given, targets, center):
            totals.add(part - inner_products(rows, coef[None]), rows)
        pull = spending.noisy(totals.total(), totals.unit, sigmas[step])[0]
        pace = _MOMENTUM * pace + vectors @ (vectors.T @ pull / curvature)
        coef = coef + pace
        if step in (_EARLY, _STEPS):
            kept.append(coef / math.sqrt(max(0.01, float(values @ (vectors.T @ coef) ** 2) / center.rows)))
    return np.stack(kept)


def _last_fit(given: PrivateRows, targets: _Values, center: _Center, candidates: _Values, sigma: float) -> tuple[float, _Values]:
    """A constant, and coefficients: ridge regression on the candidates' predictions, with a penalty as large as the noise."""
    moments = MomentTotals(4, 2.0)
    for rows, part, weights in _weighted(given, targets, center):
        moments.add(np.hstack([part, weights, inner_products(rows, candidates)]))
    noisy = noisy_moments(given.spending, moments.total(), 2.0, sigma)
    values, vectors = np.linalg.eigh(noisy[1:, 1:])
    found = vectors @ (vectors.T @ noisy[1:, 0] / (np.maximum(values, 0) + sigma * math.sqrt(8)))
    return float(found[0]), found[1:] @ candidates


def _weighted(given: PrivateRows, targets: _Values, center: _Center) -> Iterator[tuple[_Values, _Values, _Values]]:
    """Rows around the mean over the radius, at most 1 long; targets around theirs over the spread; the weights of both."""
    constant = center.radius / 16  # clipped together with its row, it becomes the weight: a function of that row alone
    for block, part in zip(blocks(given.rows), blocks(targets, given.dimension), strict=True):
        around = np.asarray(on_host(block), np.float64) - center.mean
        cut = clip(np.hstack([around, np.full_like(part, constant)]), center.radius)
        weights = cut[:, -1:] / constant
        yield cut[:, :-1] / center.radius, weights * (part - center.target) / center.spread, weights


def _squares(rows: _Values) -> _Values:
    """|x|^2 of each row, [n, 1], a function of it alone: a 1 beside x of unit length becomes (1 + |x|^2)^(-1/2)."""
    longer = np.hstack([rows, np.ones((len(rows), 1))])
    ones: _Values = unit_rows(longer, longer)[:, -1:]
    return 1 / (ones * ones) - 1
