"""Searches of an index: the best of some of its rows, noise on every score, and the answer."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._util.display import Sheet, at_least, plural, shown
from hushvec.extend import ReleasePlan, RowReceipt, charge, entry_of_charge, key_fields
from hushvec.mechanisms import GumbelTopK, VectorMechanism
from hushvec.receipts import NOTE_SEED, Receipt, SelectionReceipt
from hushvec.retrieval.noise import ScoreNoise
from hushvec.retrieval.stores import Store
from hushvec.retrieval.stores.numpy_flat import NumpyStore, Rows, Scores, best_of_matrix, score_blocks

_SHOWN_QUERIES = 4
_SHOWN_ROWS, _SHOWN_ROWS_OF_ONE = 5, 15  # of each of several queries, and of a single one
Places = NDArray[np.int64]
# A store that finds its answers without looking at rows one by one is asked for this many times as many rows as should be enough,
_MARGIN = 2
# if that is at most this part of its rows: else the rows of the subset are scored themselves.
_LARGEST_PART = 4
# Gumbel top-k takes all scores of a query at once: so many scores of several queries are held, 64 MB.
_HELD_SCORES = 1 << 24
NOTE_SCORES = "the released rows are scores: one row a document, one column a query, clamped to [{low!r}, {high!r}] and shifted"


@shown
class SearchResult(NamedTuple):
    """The answer to m queries. `print` shows the best rows of the first ones."""

    ids: NDArray[Any]  # [m, k], best first: int64, or object (str) where the index has strings
    scores: NDArray[Any] | None  # float32 [m, k], noisy where scores have noise; None for "gumbel", which releases the order alone
    query_receipt: RowReceipt | None = None  # of the noise on the queries
    score_receipt: RowReceipt | SelectionReceipt | None = None  # of the noise on the scores; a SelectionReceipt for "gumbel"

    def _sheet(self) -> Sheet:
        queries, most = self.ids.shape
        answers = [(f"query {query}", self._row(query)) for query in range(min(queries, _SHOWN_QUERIES))]
        if queries > _SHOWN_QUERIES:
            answers.append(("...", plural(queries - _SHOWN_QUERIES, "more query", "more queries")))
        noise = [("query noise", _noise(self.query_receipt)), ("score noise", _noise(self.score_receipt))]
        best = f"the best {plural(most, 'row')}{' each' if queries > 1 else ''}"
        return Sheet(f"Search: {plural(queries, 'query', 'queries')}, {best}", (*answers, *noise))

    def _row(self, query: int) -> str:
        most = _SHOWN_ROWS if len(self.ids) > 1 else _SHOWN_ROWS_OF_ONE
        ids = self.ids[query].tolist()
        scores = [None] * len(ids) if self.scores is None else self.scores[query].tolist()
        found = [str(one) if score is None else f"{one} ({score:.3g})" for one, score in zip(ids[:most], scores)]
        more = len(ids) - len(found)
        return ", ".join((*found, f"{more:,} more") if more else found) or "no rows"


def _noise(receipt: RowReceipt | SelectionReceipt | None) -> str:
    if receipt is None:
        return "none"
    claim = "" if receipt.is_dp_claim else "; NOT A DP CLAIM"
    return f"{receipt.mechanism}, epsilon {at_least(receipt.epsilon)}, delta {at_least(receipt.delta)} for this search{claim}"


class Chosen:
    """Some rows of a matrix, in their order, copied a block at a time."""

    def __init__(self, matrix: Scores, places: Places) -> None:
        self._matrix, self._places = matrix, places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, part: slice) -> Scores:
        return self._matrix[self._places[part]]


def best_of_some(store: Store, queries: Scores, k: int, places: Places) -> tuple[Places, Scores]:
    """Places and scores [m, k], best first, among the rows at ascending, distinct places.

    An approximate store is asked for more rows than k; where few rows belong to the subset, they are scored one by one.
    """
    if len(places) == len(store):
        return store.search(queries, k)
    if isinstance(store, NumpyStore):
        found, scores = best_of_matrix(Chosen(store.matrix(), places), queries, k)
        return places[found], scores
    wide = math.ceil(_MARGIN * k * len(store) / len(places))
    if wide <= len(store) // _LARGEST_PART:
        found, scores = store.search(queries, wide)
        belongs = np.zeros(len(store), np.bool_)
        belongs[places] = True
        inside = belongs[found]
        if inside.sum(axis=1).min() >= k:  # the first k of each query that belong to the subset
            first = np.argsort(~inside, axis=1, kind="stable")[:, :k]
            return np.take_along_axis(found, first, axis=1), np.take_along_axis(scores, first, axis=1)
    found, scores = best_of_matrix(store.rows(places), queries, k)
    return places[found], scores


@dataclass(frozen=True)
class ScoreSearch:
    """One search of some size with score noise. Charges, then answers."""

    noise: ScoreNoise
    documents: int
    queries: int
    k: int
    generator: _core.Generator

    def charge(self) -> Receipt | SelectionReceipt:
        """Charge the budget for all queries; the receipt of the search."""
        mechanism = self.noise.for_queries(self.queries, k=self.k)
        if not isinstance(mechanism, VectorMechanism):
            return self._charge_selection(mechanism)
        plan = ReleasePlan(mechanism, "record", "float32", normalize=False, renormalize=False, generator=self.generator)
        receipt = plan.vector_receipt(self.documents, notes=(NOTE_SCORES.format(low=self.noise.low, high=self.noise.high),))
        return receipt if self.noise.budget is None else charge(receipt, self.noise.budget, plan)

    def _charge_selection(self, mechanism: GumbelTopK) -> SelectionReceipt:
        noise, seeded = self.noise, self.generator.seeded
        epsilon, delta = noise.cost(self.queries)
        receipt = SelectionReceipt(
            epsilon=epsilon, delta=delta, selections=self.queries, picks=self.k, candidates=self.documents, score_low=noise.low,
            score_high=noise.high, sensitivity=mechanism.sensitivity, epsilon_per_pick=mechanism.per_pick,
            **key_fields(self.generator), is_dp_claim=not seeded, library_version=_core.__version__,
            notes=(NOTE_SEED,) if seeded else (),
        )
        if noise.budget is None:
            return receipt
        purpose = f"{receipt.mechanism}, {self.queries} x {self.k} of {self.documents}"
        return replace(receipt, charge=entry_of_charge(noise.budget, epsilon, delta, receipt.rho, purpose))

    def answer(self, rows: Rows, queries: Scores) -> tuple[NDArray[np.int64], Scores | None]:
        """Places [m, k] and, where they are released, noisy scores."""
        mechanism = self.noise.for_queries(self.queries, k=self.k)
        if not isinstance(mechanism, VectorMechanism):
            return self._selected(mechanism, rows, queries), None

        def noisy(scores: Scores) -> Scores:
            self._clamp(scores)
            values = np.empty_like(scores)
            mechanism.apply(scores, values, self.generator, out_is_fresh=True)
            return values

        places, values = best_of_matrix(rows, queries, self.k, noisy)
        return places, values + self.noise.middle

    def _selected(self, mechanism: GumbelTopK, rows: Rows, queries: Scores) -> NDArray[np.int64]:
        step = max(1, _HELD_SCORES // self.documents)
        places = np.empty((self.queries, self.k), np.int64)
        for first in range(0, self.queries, step):
            asked = queries[first : first + step]
            scores = np.empty((len(asked), self.documents), np.float32)
            for document, block in score_blocks(rows, asked):
                scores[:, document : document + len(block)] = block.T
            self._clamp(scores)
            places[first : first + step] = mechanism.select(scores, generator=self.generator)
        return places

    def _clamp(self, scores: Scores) -> None:
        """In place: shifted by the middle of the range, within `reach` of 0. NaN counts as the lower end."""
        reach = self.noise.reach
        if self.noise.middle:
            np.subtract(scores, self.noise.middle, out=scores)
        np.fmax(scores, -reach, out=scores)
        np.fmin(scores, reach, out=scores)
