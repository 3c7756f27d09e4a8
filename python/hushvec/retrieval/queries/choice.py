"""How many codes a codebook of questions should have: the number that works best for simulated questions, from public rows alone.

With few codes the answer is nearly always true but coarse; with many it is finer but less reliable. So it is measured: of the
documents that a question would find without privacy, how much of their discounted gain is expected among those that are fetched?
The expectation over randomized response is computed as a finite sum; that over PrivUnit is sampled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._util.display import Progress
from hushvec.mechanisms import CodebookResponse, PrivUnit, PublicCodebook, RandomizedResponse, unit_public_rows
from hushvec.mechanisms.codebook import NEIGHBORS, Tried, best, count_for, counts_up_to, gains, tried_until_past
from hushvec.retrieval.stores import open_store

_FEWEST_ROWS = 32
_MOST_DOCUMENTS = 2**15
_MOST_QUESTIONS = 1024
_LISTS_SAMPLED = 512  # of the codes that no simulated question has, for what a false answer brings

Rows = NDArray[np.float32]
Places = NDArray[np.int64]


class Simulation:
    """Simulated questions to public documents; all are unit rows. Without questions some documents are held out and asked about."""

    def __init__(self, public: Rows, questions: Rows | None, *, epsilon: float, fetch: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self._rng, self._seed, self._epsilon = rng, seed, epsilon
        order = rng.permutation(len(public))[:_MOST_DOCUMENTS]
        self.documents = public[order]
        self._store = open_store("numpy", public.shape[1])
        self._store.add(self.documents)
        # Of a part of the documents, a fetch has the same share.
        self._fetch = min(len(order), max(NEIGHBORS, round(fetch * len(order) / len(public))))
        if questions is None:
            places = np.arange(0, len(order), 2)[:_MOST_QUESTIONS]
            self.seen, self.asked = self.documents[1::2], self.documents[places]
            found = self._store.search(self.asked, NEIGHBORS + 1)[0]
            others_first = np.argsort(found == places[:, None], axis=1, kind="stable")[:, :NEIGHBORS]
            self._wanted = np.take_along_axis(found, others_first, axis=1)
        else:
            self.seen, self.asked = self.documents, questions[rng.permutation(len(questions))[:_MOST_QUESTIONS]]
            self._wanted = self._store.search(self.asked, NEIGHBORS)[0]
        self._gains = gains(self._wanted.shape[1])

    def share(self, codebook: PublicCodebook) -> float:
        """Expected share for questions that are answered through the codebook."""
        response = RandomizedResponse(epsilon=self._epsilon, k=len(codebook))
        truth, other = response.probability_of_truth, response.probability_of_each_other
        cells, own = np.unique(codebook.encode(self.asked), return_inverse=True)
        table = codebook.decode(np.arange(len(codebook)), self._epsilon)
        sampled = self._rng.permutation(len(codebook))[:_LISTS_SAMPLED]
        often = np.bincount(self._lists(table[sampled]).ravel(), minlength=len(self.documents)) / len(sampled)
        anything = (often[self._wanted] * self._gains).sum(axis=1)
        hit = self._gain(self._lists(table[cells]), own)
        return float(((truth - other) * hit + other * len(codebook) * anything).mean())

    def privunit_share(self, mechanism: PrivUnit) -> float:
        """Share for questions that are released as PrivUnit directions, from one release of each."""
        released = np.empty_like(self.asked)
        mechanism.apply(self.asked, out=released, generator=_core.Generator.unsafe_seeded(self._seed))
        return float(self._gain(self._lists(released), np.arange(len(released))).mean())

    def _lists(self, rows: Rows) -> Places:
        return self._store.search(rows, self._fetch)[0]

    def _gain(self, lists: Places, own: NDArray[np.int64]) -> NDArray[np.float64]:
        """For each question, the share of its wanted documents' gain that its list contains."""
        fetched = np.zeros((len(lists), len(self.documents)), bool)
        np.put_along_axis(fetched, lists, True, axis=1)
        return np.asarray((fetched[own[:, None], self._wanted] * self._gains).sum(axis=1))


def best_of(
    public: Any, questions: Any, *, epsilon: float, fetch: int, seed: int
) -> tuple[CodebookResponse | PrivUnit, tuple[Tried, ...]]:
    """The mechanism that works best for simulated questions, a codebook of public documents or PrivUnit, and what was tried, by rising
    number of codes, PrivUnit first. Arguments are those of `PrivateQuery`."""
    rows = unit_public_rows(public, "public")
    asked = None if questions is None else unit_public_rows(questions, "questions")
    if len(rows) < _FEWEST_ROWS:
        raise ValueError(f"public must have at least {_FEWEST_ROWS} rows, got {len(rows)}")
    if asked is not None and asked.shape[1] != rows.shape[1]:
        raise ValueError(f"questions must have {rows.shape[1]} columns, those of public, got {asked.shape[1]}")
    simulation = Simulation(rows, asked, epsilon=epsilon, fetch=fetch, seed=seed)
    privunit = PrivUnit(epsilon=epsilon, dimension=rows.shape[1], corpus_size=max(2, len(rows) // fetch))
    counts = counts_up_to(len(simulation.seen))
    with Progress("choosing the number of codes", len(counts)) as progress:

        def share(count: int) -> float:
            progress.advance(1)
            return simulation.share(PublicCodebook.fit(simulation.seen, codes=count, seed=seed))

        tried = tried_until_past(counts, share)
    without = Tried(0, simulation.privunit_share(privunit))
    count, most = best(tried)
    if without.share >= most:
        return privunit, (without, *tried)
    codebook = PublicCodebook.fit(rows, codes=count_for(len(rows), count, tried_on=len(simulation.seen)), seed=seed)
    return codebook.mechanism(epsilon), (without, *tried)
