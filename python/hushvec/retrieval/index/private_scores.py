"""A search that adds noise to all scores before it selects anything."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec.mechanisms import VectorMechanism
from hushvec.receipts.base import NOTE_SEED, key_fields
from hushvec.receipts.selections import SelectionReceipt
from hushvec.receipts.vectors import Receipt
from hushvec.release.charging import entry_of_charge
from hushvec.release.vectors import ReleasePlan, charge
from hushvec.retrieval.noise import ScoreNoise
from hushvec.retrieval.stores.blocks import Rows, Scores, best_of_matrix, score_blocks

if TYPE_CHECKING:
    from hushvec.mechanisms import GumbelTopK

# Gumbel top-k takes all scores of a query at once: so many scores of several queries are held, 64 MB.
_HELD_SCORES = 1 << 24

NOTE_SCORES = "the released rows are scores: one row a document, one column a query, clamped to [{low!r}, {high!r}] and shifted"


@dataclass(frozen=True, kw_only=True)
class ScoreSearch:
    """One search with score noise; arguments are checked. Charges, then answers.

    Args:
        noise: what the scores get.
        documents, queries, k: sizes of the search.
        generator: key stream.
    """

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
        plan = ReleasePlan(
            mechanism=mechanism, per="record", dtype="float32", normalize=False, renormalize=False, generator=self.generator
        )
        receipt = plan.vector_receipt(self.documents, notes=(NOTE_SCORES.format(low=self.noise.low, high=self.noise.high),))
        if self.noise.budget is None:
            return receipt
        return charge(receipt, self.noise.budget, plan)

    def _charge_selection(self, mechanism: GumbelTopK) -> SelectionReceipt:
        noise, seeded = self.noise, self.generator.seeded
        epsilon, delta = noise.cost(self.queries)
        receipt = SelectionReceipt(
            epsilon=epsilon,
            delta=delta,
            selections=self.queries,
            picks=self.k,
            candidates=self.documents,
            score_low=noise.low,
            score_high=noise.high,
            sensitivity=mechanism.sensitivity,
            epsilon_per_pick=mechanism.per_pick,
            **key_fields(self.generator),
            is_dp_claim=not seeded,
            library_version=_core.__version__,
            notes=(NOTE_SEED,) if seeded else (),
        )
        if noise.budget is None:
            return receipt
        purpose = f"{receipt.mechanism}, {self.queries} x {self.k} of {self.documents}"
        return replace(receipt, charge=entry_of_charge(noise.budget, epsilon, delta, receipt.loss.rho, purpose))

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
