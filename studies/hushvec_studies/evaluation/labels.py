"""One measurement of classification: training rows or test rows are released, and classifiers that everybody knows name the class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.naive_bayes import CategoricalNB

from hushvec.mechanisms.codebook import CodebookResponse
from hushvec.mechanisms.public_arrays import nearest_codes
from hushvec_studies.evaluation.attacks.recognition import recognized_rows, released_codes
from hushvec_studies.evaluation.cell import Cell, row_of
from hushvec_studies.evaluation.contenders import DOCUMENTS, NONE, Contender, clean, contender, generators
from hushvec_studies.evaluation.vectors import Labelled
from hushvec_studies.search_by_mechanism.measure import unit

PROBE, CENTROID, BY_CODE = "accuracy_probe", "accuracy_centroid", "accuracy_codes"
MEASURES = (PROBE, CENTROID, BY_CODE)
TRAINING, TEST = "training", "test"

Rows = NDArray[np.float32]
Classes = NDArray[np.int64]


def measure_labels(cell: Cell) -> dict[str, Any]:
    """The row of a cell of classification."""
    data = cell.data
    assert isinstance(data, Labelled)
    private = data.training if cell.side == TRAINING else data.test
    runs, hits, chosen, delta = [], [], [], 0.0
    for draw, generator in enumerate(generators(cell.noise_seed, cell.draws)):
        made = _contender(cell, data, draw, generator)
        released = made.released(private, generator)
        # Nobody's rows but the server's own: it gives them the noise that the test rows have, so that the probe knows it.
        training = released if cell.side == TRAINING else made.released(data.training, generator)
        test = released if cell.side == TEST else made.beside(data.test)
        prototypes = training if cell.side == TRAINING else made.beside(data.training)
        right = {
            PROBE: probe(unit(training), data.training_classes, unit(test)) == data.test_classes,
            CENTROID: nearest_centroid(unit(prototypes), data.training_classes, unit(test)) == data.test_classes,
        }
        if isinstance(made.mechanism, CodebookResponse):
            codes = made.mechanism.codebook.codes
            seen, asked = (
                released_codes(made.mechanism, rows) if rows is released else nearest_codes(rows, codes).astype(np.int64)
                for rows in (prototypes, test)
            )
            right[BY_CODE] = by_code(seen, data.training_classes, asked, len(codes)) == data.test_classes
        runs.append({name: hit.astype(np.float64) for name, hit in right.items()})
        hits.append(recognized_rows(made, released, private))
        chosen.append(made.chosen)
        delta = made.delta
    return row_of(cell, runs, [np.arange(len(data.test))] * cell.draws, hits, delta, chosen)


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


def by_code(codes: Classes, classes: Classes, asked: Classes, count: int) -> Classes:
    """The likeliest class of each asked code, by naive Bayes on the code alone, with equal priors."""
    model = CategoricalNB(min_categories=count, fit_prior=False).fit(codes[:, None], classes)
    return np.asarray(model.predict(np.asarray(asked)[:, None]))


def _contender(cell: Cell, data: Labelled, draw: int, generator: Any) -> Contender:
    if cell.mechanism == NONE:
        return clean()
    assert cell.epsilon is not None
    return contender(
        cell.mechanism,
        data.public,
        cell.epsilon,
        cell.delta,
        rows=None,
        purpose="cosine",
        side=DOCUMENTS,
        seed=cell.seed + draw,
        generator=generator,
    )
