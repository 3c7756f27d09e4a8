"""One measurement of search: what is found among private documents, or by private questions, and who is recognized in them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import hushvec
from hushvec.retrieval import PrivateQuery
from hushvec.retrieval.measures import Judgements, per_query
from hushvec_studies.evaluation.attacks.recognition import recognized_rows
from hushvec_studies.evaluation.cell import Cell, row_of
from hushvec_studies.evaluation.contenders import DOCUMENTS, NONE, QUESTIONS, Contender, clean, contender, generators
from hushvec_studies.evaluation.vectors import Posts, Searched
from hushvec_studies.search_by_mechanism.measure import K, halves, index_of, measures, searched, unit

MEASURES = (f"ndcg_at_{K}", f"recall_at_{K}", "mrr")
FETCH = 50
PRIVATE_QUERY = "private query"

Rows = NDArray[np.float32]


def measure_search(cell: Cell) -> dict[str, Any]:
    """The row of a cell of search."""
    if isinstance(cell.data, Posts):
        return _posts(cell, cell.data)
    assert isinstance(cell.data, Searched)
    return _documents(cell, cell.data) if cell.side == DOCUMENTS else _questions(cell, cell.data)


def _documents(cell: Cell, data: Searched) -> dict[str, Any]:
    """Each split makes half of the documents public and releases the other half, once; clean queries search it."""
    runs, groups, hits, chosen, delta = [], [], [], [], 0.0
    drawn = zip(halves(len(data.documents), data.relevant, cell.draws), generators(cell.noise_seed, cell.draws))
    for split, ((public, private, asking, wanted), generator) in enumerate(drawn):
        rows = data.documents[private]
        made = _contender(cell, data.documents[public], len(rows), split, generator)
        released = made.released(rows, generator)
        runs.append(measures(searched(index_of(released), made.beside(data.queries[asking])), wanted))
        groups.append(asking)
        hits.append(recognized_rows(made, released, rows))
        chosen.append(made.chosen)
        delta = made.delta
    return row_of(cell, runs, groups, hits, delta, chosen)


def _posts(cell: Cell, data: Posts) -> dict[str, Any]:
    """All private posts are released; each clean one looks for others of its group."""
    runs, hits, chosen, delta = [], [], [], 0.0
    for draw, generator in enumerate(generators(cell.noise_seed, cell.draws)):
        made = _contender(cell, data.public, len(data.private), draw, generator)
        released = made.released(data.private, generator)
        ids = index_of(released).search(made.beside(data.private), K + 1).ids
        runs.append(per_query(_judged_by_group(_others(ids), data.groups), (K,)))
        hits.append(recognized_rows(made, released, data.private))
        chosen.append(made.chosen)
        delta = made.delta
    return row_of(cell, runs, [np.arange(len(data.private))] * cell.draws, hits, delta, chosen)


def _questions(cell: Cell, data: Searched) -> dict[str, Any]:
    """Documents are public, queries are released. Each draw has a codebook of its own."""
    runs, hits, chosen, delta = [], [], [], 0.0
    for draw, generator in enumerate(generators(cell.noise_seed, cell.draws)):
        if cell.mechanism == PRIVATE_QUERY:
            assert cell.epsilon is not None
            asker = PrivateQuery(data.documents, epsilon=cell.epsilon, fetch=FETCH, generator=generator, seed=draw)
            made = Contender(asker.mechanism, None if asker.codebook is None else len(asker.codebook), unit, 0.0)
            index = index_of(data.documents)
            ids = np.array([asker.search(query, index, k=K).ids for query in data.queries])
            released = np.array([asker.ask(query).row for query in data.queries])
        else:
            made = _contender(cell, data.documents, len(data.documents), draw, generator)
            released = made.released(data.queries, generator)
            ids = searched(index_of(made.beside(data.documents)), released)
        runs.append(measures(ids, data.relevant))
        hits.append(recognized_rows(made, released, data.queries))
        chosen.append(made.chosen)
        delta = made.delta
    return row_of(cell, runs, [np.arange(len(data.queries))] * cell.draws, hits, delta, chosen)


def _contender(cell: Cell, public: Rows, rows: int, draw: int, generator: hushvec.Generator) -> Contender:
    if cell.mechanism == NONE:
        return clean()
    assert cell.epsilon is not None
    side = QUESTIONS if cell.side == QUESTIONS else DOCUMENTS
    purpose = "cosine" if isinstance(cell.data, Posts) else "search"
    return contender(
        cell.mechanism,
        public,
        cell.epsilon,
        cell.delta,
        rows=rows,
        purpose=purpose,
        side=side,
        seed=cell.seed + draw,
        generator=generator,
    )


def _others(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first K results of each post without the post itself."""
    own = ids == np.arange(len(ids))[:, None]
    order = np.argsort(own, axis=1, kind="stable")[:, :K]
    return np.take_along_axis(ids, order, axis=1)


def _judged_by_group(ids: NDArray[np.int64], groups: NDArray[np.int64]) -> Judgements:
    """Posts of the asking post's group are relevant, all alike."""
    gains = (groups[ids] == groups[:, None]).astype(np.float64)
    relevant = np.bincount(groups)[groups].astype(np.float64) - 1
    ideal = (np.arange(ids.shape[1]) < relevant[:, None]).astype(np.float64)
    return Judgements(gains, ideal, relevant)
