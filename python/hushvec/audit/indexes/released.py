"""The attack on the rows themselves: anyone who holds a private index reads its rows, and needs no search.

The law of a released row is public, so likelihoods are exact. One adversary knows the pool and asks how many rows a candidate would
explain that the pool does not: the mean over the rows of p(row | candidate) / mean over the pool of p(row | document). The other knows
all but a coin: it has one row and two candidates, and p(row | first) / p(row | second) is the best statistic there is (Neyman and
Pearson). It guesses for the lower bound on epsilon.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hushvec.audit.indexes.lower_bound import PairStatistic
from hushvec.audit.indexes.row_laws import Rows, log_densities, log_ratios
from hushvec.audit.indexes.rows import Vectors
from hushvec.audit.indexes.shadows import KEPT_SHADOWS, Game, Model
from hushvec.audit.indexes.statistics import Statistic
from hushvec.receipts.vectors import Receipt

# Rows compared with the pool at once: 1,000 x 10,000 log densities are 80 MB.
_ROWS_AT_ONCE = 1000
# Candidates that explain no row at all are all alike.
_SMALLEST = 1e-300


def released_statistic(game: Game) -> Statistic:
    """For each candidate, ln of how much better than the pool it explains the rows."""
    shadows, targets = (
        np.stack([_explained(game.documents, *_rows_of(game, model)) for model in models])
        for models in (game.shadows[:KEPT_SHADOWS], game.targets)
    )
    return Statistic("rows of the index", shadows, targets)


def released_pairs(game: Game) -> list[PairStatistic]:
    """For each pair, ln of how much likelier its row is with the first document; and the row along the difference of the two."""
    return [_of_pairs("row's log ratio", game, _ratio), _of_pairs("row's projection", game, _projection)]


def released_claim(game: Game) -> tuple[float, float] | None:
    """(epsilon, delta) of the rows, by their receipts; None without one. Noise on scores or queries does not protect rows."""
    receipts = [_receipt(model.index) for model in game.targets]
    return None if receipts[0] is None else max((receipt.epsilon, receipt.delta) for receipt in receipts if receipt is not None)


def _explained(candidates: Vectors, rows: Rows, receipt: Receipt | None) -> Any:
    total = np.zeros(len(candidates))
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        table = log_densities(rows[first : first + _ROWS_AT_ONCE], candidates, receipt)
        table -= table.max(axis=1, keepdims=True)
        np.exp(table, out=table)
        table /= table.mean(axis=1, keepdims=True)
        total += table.sum(axis=0)
    return np.log(np.maximum(total / len(rows), _SMALLEST))


def _of_pairs(name: str, game: Game, of: Any) -> PairStatistic:
    def values(models: Sequence[Model]) -> Any:
        return np.stack([_each_pair(of, game, model) for model in models])

    return PairStatistic(name, values(game.shadows[:KEPT_SHADOWS]), values(game.targets))


def _each_pair(of: Any, game: Game, model: Model) -> Any:
    rows, receipt = _rows_of(game, model)
    first, second = (game.documents[side] for side in model.pairs.T)
    return of(rows[model.slots], receipt, first, second)


def _ratio(rows: Rows, receipt: Receipt | None, first: Vectors, second: Vectors) -> Any:
    return log_ratios(rows, first, second, receipt)


def _projection(rows: Rows, receipt: Receipt | None, first: Vectors, second: Vectors) -> Any:
    along = np.einsum("md,md->m", rows, first - second, dtype=np.float64)
    middle = np.einsum("md,md->m", first + second, first - second, dtype=np.float64) / 2
    return along - middle


def _rows_of(game: Game, model: Model) -> tuple[Rows, Receipt | None]:
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
