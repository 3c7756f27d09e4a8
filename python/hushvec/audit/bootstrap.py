"""Percentile bootstrap of means, over queries or over groups of queries; its parts also serve `RocCurve.intervals`.

A unit is a query, or all queries of one group. A resample's mean is sum w_u s_u / sum w_u c_u, with s_u the sums of unit u, c_u
its queries and w multinomial over the units. Units with equal sums are drawn together, by the same law.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native.products import product
from hushvec._util import validate
from hushvec._util.statistics import Estimate, clopper_pearson_lower

# A kind costs one binomial draw a resample, about as much as eight plain units.
UNITS_PER_KIND = 8
# Whole numbers drawn at once where units are drawn one by one: 8 MiB, which stays in cache.
_DRAWN_AT_ONCE = 1 << 20


def bootstrap(
    columns: Mapping[str, Any], *, groups: Any = None, confidence: float = 0.95, resamples: int = 1000, seed: int = 2025,
    limits: tuple[float, float] | None = None,
) -> dict[str, Estimate]:
    """The mean of each column with its percentile bootstrap interval.

    Args:
        columns: name -> float array [m]: one value per query. All are resampled together.
        groups: [m] labels: queries of one label (about one document or person) are drawn together. None: every query for itself.
        confidence: in (0, 1).
        resamples, seed: >= 1; >= 0, of the resampling alone.
        limits: the smallest and the largest value that a query can have, where they are known: see the edge cases.

    Guarantees:
        The interval covers the mean of the population that queries (groups) are a sample of with a probability near `confidence`
        for large m; for small m, or shares near 0 or 1, somewhat less. Dependent queries that are not grouped make it too narrow.

    Edge cases:
        All units alike: the bootstrap has no width. With `limits` (a, b) the interval is then [v p + a (1 - p), v p + b (1 - p)],
        where v is the value and p the lower end of the two-sided Clopper-Pearson interval for the share of units that have it.
        (Groups of different sizes: with groups counted alike.) Without limits it is [v, v].

    Reference:
        Efron, "Bootstrap methods: another look at the jackknife" (1979); Davison and Hinkley, "Bootstrap methods and their
        application" (1997), sections 2.4 and 3.8 (groups).

    Example:
        >>> from hushvec.audit.bootstrap import bootstrap
        >>> print(bootstrap({"recall_at_1": [1.0] * 100}, limits=(0.0, 1.0))["recall_at_1"])
        1.000 [0.964, 1.000]
    """
    level, count = require_settings(confidence=confidence, resamples=resamples, seed=seed)
    names, values = list(columns), matrix_of(columns)
    sums, sizes = unit_sums(values, group_numbers(groups, len(values)))
    means = sums.sum(axis=0) / sizes.sum()
    estimates = percentiles(means, resampled_means(sums, sizes, count, np.random.default_rng(seed)), level)
    for number, found in enumerate(estimates):
        if limits is not None and len(np.unique(sums[:, number] / sizes)) == 1:
            estimates[number] = all_alike(found.value, len(sums), level, limits)
    return dict(zip(names, estimates))


def percentiles(values: NDArray[np.float64], drawn: NDArray[np.float64], confidence: float) -> list[Estimate]:
    """The percentile interval of each value [c] from its resamples [resamples, c]."""
    ends = np.quantile(drawn, ((1 - confidence) / 2, (1 + confidence) / 2), axis=0)
    return [Estimate(value, low, high, confidence) for value, low, high in zip(values.tolist(), *ends.tolist())]


def all_alike(value: float, units: int, confidence: float, limits: tuple[float, float]) -> Estimate:
    """The interval where all units have one value, which leaves the bootstrap without width: see `bootstrap`, edge cases."""
    share = clopper_pearson_lower(units, units, (1 - confidence) / 2)
    bottom, top = (value * share + limit * (1 - share) for limit in limits)
    return Estimate(value, min(bottom, value), max(top, value), confidence)


def resampled_means(
    sums: NDArray[np.float64], sizes: NDArray[np.float64], resamples: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """[resamples, c]: the mean of each column in each resample of the units."""
    table = np.column_stack((sums, sizes))
    kinds, counts = _kinds(table)
    if len(kinds) * UNITS_PER_KIND <= len(table):
        weights = rng.multinomial(len(table), counts / len(table), size=resamples).astype(np.float64)
        totals = product(weights, kinds)
    else:
        totals = np.concatenate([product(block, table) for block in resampled_counts(len(table), resamples, rng)])
    return np.asarray(totals[:, :-1] / totals[:, -1:])


def resampled_counts(units: int, resamples: int, rng: np.random.Generator) -> Iterator[NDArray[np.float64]]:
    """How often each unit is in each resample: blocks [b, units], `resamples` rows together, each `units` draws with replacement."""
    at_once = max(1, _DRAWN_AT_ONCE // units)
    for first in range(0, resamples, at_once):
        rows = min(at_once, resamples - first)
        yield counted(rng.integers(0, units, size=(rows, units), dtype=np.uint32).astype(np.intp), units).astype(np.float64)


def counted(drawn: NDArray[np.intp], kinds: int) -> NDArray[np.int64]:
    """How often each of so many kinds is in each row of numbers below that."""
    rows = len(drawn)
    apart = drawn + (np.arange(rows) * kinds)[:, None]
    return np.bincount(apart.ravel(), minlength=rows * kinds).reshape(rows, kinds)


def unit_sums(values: NDArray[np.float64], groups: NDArray[np.intp] | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(sums [u, c], sizes [u]) of the units: the rows themselves, or the sums over each group."""
    if groups is None:
        return values, np.ones(len(values))
    count = int(groups.max()) + 1
    sums = [np.bincount(groups, weights=column, minlength=count) for column in values.T]
    return np.column_stack(sums), np.bincount(groups, minlength=count).astype(np.float64)


def group_numbers(groups: Any, queries: int) -> NDArray[np.intp] | None:
    """Labels of groups as numbers from 0 without gaps; None stays None."""
    if groups is None:
        return None
    labels = np.asarray(groups)
    if labels.dtype.kind not in "iuU":
        raise TypeError(f"groups must be whole numbers or strings, got {labels.dtype}")
    if labels.shape != (queries,):
        raise ValueError(f"groups must be one label for each of {queries} queries, got shape {labels.shape}")
    return np.asarray(np.unique(labels, return_inverse=True)[1], np.intp)


def matrix_of(columns: Mapping[str, Any]) -> NDArray[np.float64]:
    """[m, c] of named columns, checked."""
    if not columns:
        raise ValueError("columns must have at least one column, got none")
    checked = []
    for name, column in columns.items():
        array = np.asarray(column)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"{name} must be numbers, got {array.dtype}")
        if array.ndim != 1 or len(array) == 0:
            raise ValueError(f"{name} must have one value for each query and at least one, got shape {array.shape}")
        wide = array.astype(np.float64)
        if not np.isfinite(wide).all():
            raise ValueError(f"{name} must be finite, got {wide[~np.isfinite(wide)][0]!r}")
        checked.append(wide)
    if len({len(column) for column in checked}) > 1:
        lengths = ", ".join(f"{name}: {len(column)}" for name, column in zip(columns, checked))
        raise ValueError(f"columns must have equal lengths, got {lengths}")
    return np.column_stack(checked)


def require_settings(*, confidence: Any, resamples: Any, seed: Any) -> tuple[float, int]:
    """(confidence, resamples) of a bootstrap, checked, as is its seed."""
    level = validate.probability("confidence", confidence)
    validate.whole_number("seed", seed, at_least=0)
    return level, validate.whole_number("resamples", resamples, at_least=1)


def _kinds(table: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Different rows of a table and their counts, told apart by column: ten times faster than sorting rows."""
    kind = np.zeros(len(table), np.intp)
    for column in table.T:
        values, place = np.unique(column, return_inverse=True)
        kind = np.unique(kind * len(values) + place, return_inverse=True)[1]
        if int(kind.max()) * UNITS_PER_KIND >= len(table):
            break  # too many kinds to be of use; what is told apart so far is not looked at
    _, first, counts = np.unique(kind, return_index=True, return_counts=True)
    return table[first], counts
