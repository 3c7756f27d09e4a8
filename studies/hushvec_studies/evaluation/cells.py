"""One measurement: what a mechanism at an epsilon keeps of search or classification, and who is recognized in its releases."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import hushvec
from hushvec.audit.bootstrap import bootstrap
from hushvec.retrieval import PrivateIndex, PrivateQuery
from hushvec.retrieval.measures import Judgements, judgements, per_query
from hushvec_studies.evaluation.attacks.rows import attack_interval, bounds, recognized_rows
from hushvec_studies.evaluation.contenders import DOCUMENTS, NONE, QUESTIONS, Contender, clean, contender, generators
from hushvec_studies.evaluation.vectors import Hashed, Labelled, Posts, Searched, halves
from hushvec_studies.harness.measurements import Measure, Measurement, noise_seed
from hushvec_studies.harness.rows import index_of, others_of, unit

VERSION = 2  # of what a measurement does: another one makes kept measurements again
K, FETCH = 10, 50
PRIVATE_QUERY = "private query"
PROBE, CENTROID = "accuracy_probe", "accuracy_centroid"
TRAINING, TEST = "training", "test"

Rows = NDArray[np.float32]
Classes = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Cell(Measurement):
    """One measurement.

    Args:
        task: what is released for which use, as the page names it.
        side: of the task that is released.
        data: vectors.
        mechanism: a name of `contenders`, or one of the task's own.
        epsilon: of one row; None without noise.
        delta: of Gaussian noise.
        draws: releases of each row, or splits into public and private halves.
        seed: of noise, codebooks and resampling.
        confidence, resamples: of intervals.
    """

    task: str
    side: str
    data: Hashed
    mechanism: str
    epsilon: float | None
    delta: float
    draws: int
    seed: int
    confidence: float
    resamples: int

    @property
    def key(self) -> Mapping[str, Any]:
        own = {name: value for name, value in vars(self).items() if name != "data"}
        return {"version": VERSION, "hushvec": hushvec.__version__, "data": self.data.digest, **own}

    @property
    def label(self) -> str:
        return f"{self.task}, {self.mechanism}" + ("" if self.epsilon is None else f", epsilon {self.epsilon:g}")

    @property
    def noise_seed(self) -> int:
        return noise_seed(self.digest)

    def contender(self, public: Rows, rows: int | None, purpose: str, draw: int, generator: hushvec.Generator) -> Contender:
        """The cell's mechanism, made from public rows; `rows` and `purpose` as for `contender`."""
        if self.mechanism == NONE:
            return clean()
        assert self.epsilon is not None
        return contender(
            self.mechanism,
            public,
            self.epsilon,
            self.delta,
            rows=rows,
            purpose=purpose,
            side=QUESTIONS if self.side == QUESTIONS else DOCUMENTS,
            seed=self.seed + draw,
            generator=generator,
        )


def timed(measure: Measure, cell: Cell) -> dict[str, Any]:
    begin = time.process_time()
    row = measure(cell)
    return {**row, "seconds": round(time.process_time() - begin, 1)}


@dataclass
class _Draws:
    """What each draw of a cell gave: the measures of each query, whether each released row was recognized, and what was chosen.

    Queries have a number: one that is in several draws is resampled with all of them.
    """

    runs: list[Mapping[str, NDArray[np.float64]]] = field(default_factory=list)
    groups: list[NDArray[np.int64]] = field(default_factory=list)
    hits: list[NDArray[np.bool_]] = field(default_factory=list)
    chosen: list[int | None] = field(default_factory=list)
    delta: float = 0.0

    def add(self, made: Contender, released: Rows, rows: Rows, run: Mapping[str, Any], group: NDArray[np.int64]) -> None:
        self.runs.append(run)
        self.groups.append(group)
        self.hits.append(recognized_rows(made, released, rows))
        self.chosen.append(made.chosen)
        self.delta = made.delta

    def row(self, cell: Cell) -> dict[str, Any]:
        columns = {name: np.concatenate([run[name] for run in self.runs]) for name in self.runs[0]}
        groups, candidates = np.concatenate(self.groups), len(self.hits[0])
        settings = cell.fields("confidence", "resamples", "seed")
        estimates = bootstrap(columns, groups=groups, limits=(0.0, 1.0), **settings)
        attacked = attack_interval(np.concatenate(self.hits), cell.confidence)
        return {
            **cell.fields("task", "mechanism", "epsilon"),
            "delta": None if cell.epsilon is None else self.delta,
            "chosen": [one for one in self.chosen if one is not None],
            "queries": len(np.unique(groups)),
            "draws": len(self.runs),
            "released": int(sum(map(len, self.hits))),
            "candidates": candidates,
            **{name: [one.value, one.low, one.high] for name, one in estimates.items()},
            "attack": [attacked.value, attacked.low, attacked.high],
            **bounds(cell.epsilon, self.delta, candidates),
        }


# ---- search ----

def searched(index: PrivateIndex, rows: Rows) -> Any:
    return index.search(rows, K).ids


def measures(ids: Any, relevant: Any) -> dict[str, Any]:
    """Of one run: [m] for each measure."""
    return per_query(judgements(ids, relevant), (K,))


def measure_search(cell: Cell) -> dict[str, Any]:
    if isinstance(cell.data, Posts):
        return _posts(cell, cell.data)
    assert isinstance(cell.data, Searched)
    return _documents(cell, cell.data) if cell.side == DOCUMENTS else _questions(cell, cell.data)


def _documents(cell: Cell, data: Searched) -> dict[str, Any]:
    """Each split makes half of the documents public and releases the other half, once; clean queries search it."""
    found = _Draws()
    drawn = zip(halves(len(data.documents), data.relevant, cell.draws), generators(cell.noise_seed, cell.draws))
    for split, ((public, private, asking, wanted), generator) in enumerate(drawn):
        rows = data.documents[private]
        made = cell.contender(data.documents[public], len(rows), "search", split, generator)
        released = made.released(rows, generator)
        run = measures(searched(index_of(released), made.beside(data.queries[asking])), wanted)
        found.add(made, released, rows, run, asking)
    return found.row(cell)


def _posts(cell: Cell, data: Posts) -> dict[str, Any]:
    """All private posts are released; each clean one looks for others of its group."""
    found = _Draws()
    for draw, generator in enumerate(generators(cell.noise_seed, cell.draws)):
        made = cell.contender(data.public, len(data.private), "cosine", draw, generator)
        released = made.released(data.private, generator)
        ids = others_of(index_of(released).search(made.beside(data.private), K + 1).ids)
        found.add(made, released, data.private, per_query(_judged_by_group(ids, data.groups), (K,)), np.arange(len(ids)))
    return found.row(cell)


def _questions(cell: Cell, data: Searched) -> dict[str, Any]:
    """Documents are public, queries are released. Each draw has a codebook of its own."""
    found = _Draws()
    for draw, generator in enumerate(generators(cell.noise_seed, cell.draws)):
        if cell.mechanism == PRIVATE_QUERY:
            assert cell.epsilon is not None
            asker = PrivateQuery(data.documents, epsilon=cell.epsilon, fetch=FETCH, generator=generator, seed=draw)
            made = Contender(asker.mechanism, None if asker.codebook is None else len(asker.codebook), unit, 0.0)
            index = index_of(data.documents)
            ids = np.array([asker.search(query, index, k=K).ids for query in data.queries])
            released = np.array([asker.ask(query).row for query in data.queries])
        else:
            made = cell.contender(data.documents, len(data.documents), "search", draw, generator)
            released = made.released(data.queries, generator)
            ids = searched(index_of(made.beside(data.documents)), released)
        found.add(made, released, data.queries, measures(ids, data.relevant), np.arange(len(data.queries)))
    return found.row(cell)


def _judged_by_group(ids: NDArray[np.int64], groups: NDArray[np.int64]) -> Judgements:
    """Posts of the asking post's group are relevant, all alike."""
    gains = (groups[ids] == groups[:, None]).astype(np.float64)
    relevant = np.bincount(groups)[groups].astype(np.float64) - 1
    ideal = (np.arange(ids.shape[1]) < relevant[:, None]).astype(np.float64)
    return Judgements(gains, ideal, relevant)


# ---- classification ----

def measure_labels(cell: Cell) -> dict[str, Any]:
    """The row of a cell of classification: training or test rows are released, and classifiers that everybody knows name the class."""
    data = cell.data
    assert isinstance(data, Labelled)
    private = data.training if cell.side == TRAINING else data.test
    found = _Draws()
    for draw, generator in enumerate(generators(cell.noise_seed, cell.draws)):
        made = cell.contender(data.public, None, "cosine", draw, generator)
        released = made.released(private, generator)
        # Nobody's rows but the server's own: it gives them the noise that the test rows have, so that the probe knows it.
        training = released if cell.side == TRAINING else made.released(data.training, generator)
        test = released if cell.side == TEST else made.beside(data.test)
        prototypes = training if cell.side == TRAINING else made.beside(data.training)
        right = {
            PROBE: probe(unit(training), data.training_classes, unit(test)) == data.test_classes,
            CENTROID: nearest_centroid(unit(prototypes), data.training_classes, unit(test)) == data.test_classes,
        }
        run = {name: hit.astype(np.float64) for name, hit in right.items()}
        found.add(made, released, private, run, np.arange(len(data.test)))
    return found.row(cell)


def probe(rows: Rows, classes: Classes, asked: Rows) -> Classes:
    """The class of each asked row by a linear probe: linear discriminant analysis with the shrinkage of Ledoit and Wolf.

    Classes have equal priors: otherwise the largest ones win as soon as there is much noise.
    """
    count = len(np.unique(classes))
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto", priors=np.full(count, 1 / count))
    return np.asarray(model.fit(rows, classes).predict(asked))


def nearest_centroid(rows: Rows, classes: Classes, asked: Rows) -> Classes:
    """The class whose mean row has the largest cosine with each asked row."""
    known = np.unique(classes)
    means = unit(np.stack([rows[classes == one].mean(axis=0) for one in known]))
    return np.asarray(known[(asked @ means.T).argmax(axis=1)])

