"""Classifiers of many people's rows at small epsilon: from aggregates, from released rows, and without privacy.

    python -m hushvec_studies.aggregates.measure -o folder --data DATA

Accuracy on test rows; every train row is another person's, who is there or not. The collections are those of
`hushvec study evaluation`, which DATA holds, and the digits that scikit-learn ships, on which nothing was chosen. Writes
aggregates.json into the folder and prints its tables; a run that is stopped goes on where it was. The noise is seeded:
measurements, no private releases.

class_centroids, private_classifier    one release for all people, by a holder who is trusted with their rows
ridge                                  the same from noisy second moments and class sums, which hushvec.aggregates has not
votes                                  PrivateVotes: the first 500 test rows one after the other; one without an answer is a miss
privunit                               every person's row is released, before anybody is trusted
whitened privunit, public codebook     the same with a map or codes fitted on every second row, which is taken as public: half as
                                       many people are protected. Of released rows a linear probe and nearest centroid learn
logistic regression, nearest centroid  scikit-learn's, on clean rows
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestCentroid

from hushvec.aggregates import PrivateVotes, Terms, class_centroids, private_classifier
from hushvec.aggregates.moments import MEAN_SHARE, noisy_moments
from hushvec.aggregates.rows import PrivateRows, directions
from hushvec.aggregates.rows import unit as brought_to_length_1
from hushvec.aggregates.totals import GroupTotals, MomentTotals
from hushvec_studies.evaluation.cells import TRAINING, Cell, nearest_centroid, probe, timed
from hushvec_studies.evaluation.collection import BANKING, NEWSGROUPS, paths_of
from hushvec_studies.evaluation.contenders import CODEBOOK, PRIVUNIT, WHITENED_PRIVUNIT, generators
from hushvec_studies.evaluation.vectors import Embed, Hashed, questions
from hushvec_studies.harness import settings as harness
from hushvec_studies.harness.embeddings import EmbeddingCache, embedder
from hushvec_studies.harness.measurements import grid, measured
from hushvec_studies.harness.outputs import processor, surroundings, write_study
from hushvec_studies.harness.rows import unit
from hushvec_studies.harness.settings import Distinct, Positive, Seed, Share, Text, as_json, one_of, parsed
from hushvec_studies.harness.tables import markdown_table
from hushvec_studies.retrieval.corpora import load_corpus

Rows = NDArray[np.float32]
Classes = NDArray[np.int64]

AGGREGATES: dict[str, Callable[..., Any]] = {"class_centroids": class_centroids, "private_classifier": private_classifier}
RIDGE, VOTES = "ridge", "votes"
QUESTIONS, VOTES_PER_DOCUMENT = 500, 8
# Cosines from which a document votes, chosen on clean rows of these collections: about 100 documents vote, and most are right.
THRESHOLDS = {"banking77": 0.6, "newsgroups": 0.3, "digits": 0.85}
RELEASED = (PRIVUNIT, WHITENED_PRIVUNIT, CODEBOOK)
# On unit rows scikit-learn's C = 1 shrinks too much: clean accuracy is the one to beat, so it gets the better one.
CLEAN: dict[str, Callable[[], Any]] = {
    "logistic regression": partial(LogisticRegression, C=10.0, max_iter=2000),
    "nearest centroid": NearestCentroid,
}
DIGITS = "digits"
_SEED = 2026  # of the split of the digits, and of the rows taken as public


@dataclass(frozen=True)
class Labelled(Hashed):
    """Rows of people and test rows, with the number of the class of each."""

    name: str
    rows: Rows
    classes: Classes
    test: Rows
    test_classes: Classes

    def halves(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Places of the rows that are taken as public where a mechanism needs some, and of those that are released then."""
        public, private = train_test_split(np.arange(len(self.rows)), test_size=0.5, random_state=_SEED, stratify=self.classes)
        return public, private


def banking(folder: Path, embed: Embed) -> Labelled:
    """Banking77: the train questions, and the test questions; one that was there before is left out."""
    kept, _ = questions(folder)
    parts = np.array([one["split"] for one in kept])
    return labelled(BANKING.name, embed([one["text"] for one in kept]), [one["label"] for one in kept], parts)


def newsgroups(folder: Path, embed: Embed) -> Labelled:
    """20 Newsgroups by date: older posts, and newer ones to be sorted into groups."""
    (path,) = paths_of(NEWSGROUPS, folder)
    corpus = load_corpus(path, min_tokens=1, splits="given")
    return labelled(NEWSGROUPS.name, embed(corpus.texts), corpus.categories, np.array(corpus.splits))


def digits(folder: Path, embed: Embed) -> Labelled:
    """Images of handwritten digits, 8 x 8, a quarter for testing. Neither the folder nor a model is needed."""
    shipped = load_digits()
    test = train_test_split(np.arange(len(shipped.data)), test_size=0.25, random_state=_SEED, stratify=shipped.target)[1]
    parts = np.where(np.isin(np.arange(len(shipped.data)), test), "test", "train")
    return labelled(DIGITS, shipped.data, shipped.target, parts)


def labelled(name: str, rows: Any, labels: Any, parts: NDArray[Any]) -> Labelled:
    classes, test = np.unique(labels, return_inverse=True)[1], parts == "test"
    return Labelled(name, unit(rows[~test]), classes[~test], unit(rows[test]), classes[test])


COLLECTIONS = {BANKING.name: banking, NEWSGROUPS.name: newsgroups, DIGITS: digits}


class Settings(harness.Settings):
    """The study's arguments."""

    collections: Distinct[Annotated[str, one_of(COLLECTIONS)]] = Field(
        default=tuple(COLLECTIONS), description=f"of {', '.join(COLLECTIONS)}"
    )
    epsilons: Distinct[Positive] = Field(default=(0.25, 0.5, 1.0, 2.0, 4.0, 8.0), description="of one person")
    delta: Share = Field(default=1e-5, description="of aggregates; rows are released with delta 0")
    draws: Annotated[int, Field(ge=1)] = Field(default=20, description="releases of each kind")
    model: Text = Field(default="all-MiniLM-L6-v2", description="embedding model")
    seed: Seed = Field(default=2026, description="of noise, codebooks and resampling")
    confidence: Share = Field(default=0.95, description="of the intervals")
    resamples: Annotated[int, Field(ge=1)] = Field(default=1000, description="of the bootstrap")


def measure(cell: Cell) -> dict[str, Any]:
    """The row of a cell: accuracy of each classifier that is learned, over draws of the noise."""
    data = cell.data
    assert isinstance(data, Labelled)
    hits: Mapping[str, list[NDArray[np.bool_]]]
    if cell.mechanism in CLEAN:
        model = CLEAN[cell.mechanism]().fit(data.rows, data.classes)
        hits, people = {"scikit-learn": [model.predict(data.test) == data.test_classes]}, len(data.rows)
    elif cell.mechanism in (RIDGE, VOTES):
        tried = _ridge if cell.mechanism == RIDGE else _votes
        hits = {"hushvec": [tried(cell, data, one) for one in generators(cell.noise_seed, cell.draws)]}
        people = len(data.rows)
    elif cell.mechanism in AGGREGATES:
        hits, people = {"hushvec": _aggregated(cell, data)}, len(data.rows)
    else:
        hits, people = _from_released(cell, data)
    return {
        "collection": data.name,
        "method": cell.mechanism,
        "epsilon": cell.epsilon,
        "people": people,
        "draws": len(next(iter(hits.values()))),
        "accuracy": {name: list(interval(np.array(drawn), cell)) for name, drawn in hits.items()},
    }


def _aggregated(cell: Cell, data: Labelled) -> list[NDArray[np.bool_]]:
    given = {"labels": int(data.classes.max()) + 1, "epsilon": cell.epsilon, "delta": cell.delta}
    fit = AGGREGATES[cell.mechanism]
    fitted = (fit(data.rows, data.classes, generator=one, **given) for one in generators(cell.noise_seed, cell.draws))
    return [one.predict(data.test) == data.test_classes for one in fitted]


def _ridge(cell: Cell, data: Labelled, generator: Any) -> NDArray[np.bool_]:
    """Hits of (A + lambda)^-1 S, A second moments of directions around the mean, for a tenth of mu^2, and S their class sums."""
    columns, classes = data.rows.shape[1], int(data.classes.max()) + 1
    assert cell.epsilon is not None
    given = PrivateRows(data.rows, Terms(cell.epsilon, cell.delta, generator=generator), "ridge")
    mean, _, count = given.mean(1.0, MEAN_SHARE, brought_to_length_1)
    turned = directions(data.rows, mean)
    moments, sums = MomentTotals(columns, 1.0), GroupTotals(classes, columns, 1.0)
    moments.add(turned)
    sums.add(turned, data.classes.astype(np.uint32))
    of_moments = given.spending.moments("second moments", columns, 1.0, 0.1)
    of_sums = given.spending.sums("class sums", classes, columns, 1.0, None, counts=False).sigma
    values, vectors = np.linalg.eigh(noisy_moments(given.spending, moments.total(), 1.0, of_moments))
    penalty = of_moments * np.sqrt(columns) + 0.02 * max(count, 1.0) / columns
    noisy = given.spending.noisy(sums.sums(), sums.unit, of_sums)
    weights = (noisy @ vectors / (np.maximum(values, 0) + penalty)) @ vectors.T
    weights /= np.sqrt((weights * noisy).sum(axis=1, keepdims=True))  # lengths in the metric of A
    hits: NDArray[np.bool_] = (directions(data.test, mean) @ weights.T).argmax(axis=1) == data.test_classes
    return hits


def _votes(cell: Cell, data: Labelled, generator: Any) -> NDArray[np.bool_]:
    assert cell.epsilon is not None
    asked = PrivateVotes(
        data.rows,
        data.classes,
        labels=int(data.classes.max()) + 1,
        threshold=THRESHOLDS.get(data.name, 0.6),
        epsilon_per_document=cell.epsilon,
        delta=cell.delta,
        votes_per_document=VOTES_PER_DOCUMENT,
        generator=generator,
    )
    chosen = np.random.default_rng(_SEED).permutation(len(data.test))[:QUESTIONS]
    answers = asked.ask_all(data.test[chosen])
    return np.array([answer == truth for answer, truth in zip(answers, data.test_classes[chosen])])


def _from_released(cell: Cell, data: Labelled) -> tuple[Mapping[str, list[NDArray[np.bool_]]], int]:
    """Hits of classifiers that learn from released rows, and how many people's rows these are. Maps and codes are chosen once."""
    public, private = data.halves()
    if cell.mechanism == PRIVUNIT:
        private = np.arange(len(data.rows))
    choosing, *drawing = generators(cell.noise_seed, cell.draws + 1)
    made = cell.contender(data.rows[public], None, "cosine", 0, choosing)
    hits: dict[str, list[NDArray[np.bool_]]] = {"linear probe": [], "nearest centroid": []}
    asked, classes = unit(made.beside(data.test)), data.classes[private]
    for generator in drawing:
        released = unit(made.released(data.rows[private], generator))
        for name, learned in zip(hits, (probe, nearest_centroid), strict=True):
            hits[name].append(learned(released, classes, asked) == data.test_classes)
    return hits, len(private)


def interval(hits: NDArray[np.bool_], cell: Cell) -> tuple[float, float, float]:
    """The share of hits [draws, n] and its interval: percentile bootstrap over draws and test rows, both drawn again."""
    rng = np.random.default_rng(cell.seed)
    draws, rows = hits.shape
    chosen = rng.multinomial(draws, np.full(draws, 1 / draws), cell.resamples) / draws
    asked = rng.multinomial(rows, np.full(rows, 1 / rows), cell.resamples) / rows
    shares = ((chosen @ hits) * asked).sum(axis=1)
    low, high = np.quantile(shares, ((1 - cell.confidence) / 2, (1 + cell.confidence) / 2))
    return float(hits.mean()), float(low), float(high)


def cells(settings: Settings, data: Labelled) -> list[Cell]:
    """Every method at every epsilon, after those on clean rows."""
    given = {name: getattr(settings, name) for name in ("delta", "draws", "seed", "confidence", "resamples")}
    one = partial(Cell, task=data.name, side=TRAINING, data=data, **given)
    clean = grid(one, mechanism=CLEAN, epsilon=(None,))
    noisy = (*AGGREGATES, RIDGE, VOTES, *RELEASED)
    return clean + grid(one, mechanism=noisy, epsilon=settings.epsilons)


def study(settings: Settings, data: list[Labelled], folder: Path) -> dict[str, Any]:
    """What aggregates.json holds, after everything that is missing was measured."""
    wanted = [cell for one in data for cell in cells(settings, one)]
    made = measured([(cell, partial(timed, measure)) for cell in wanted], folder, "measuring").rows
    return {
        "settings": as_json(settings),
        "surroundings": {**surroundings(), "processor": processor()},
        "collections": [
            {
                "name": one.name,
                "people": len(one.rows),
                "tested": len(one.test),
                "classes": int(one.classes.max()) + 1,
                "columns": one.rows.shape[1],
            }
            for one in data
        ],
        "rows": [made[cell.digest] for cell in wanted],
    }


# ---- tables

SHOWN = {
    "private_classifier": "`private_classifier`",
    "class_centroids": "`class_centroids`",
    RIDGE: "ridge from noisy moments",
    VOTES: "`PrivateVotes`",
    PRIVUNIT: "rows: PrivUnit",
    WHITENED_PRIVUNIT: "rows: whitened PrivUnit, half public",
    CODEBOOK: "rows: public codebook, half public",
}


def best(row: Mapping[str, Any]) -> list[float]:
    """Accuracy and interval of the classifier that does best: it is chosen on the test rows, in favor of released rows."""
    found: list[float] = max(row["accuracy"].values())
    return found


def table(found: Mapping[str, Any], collection: str) -> str:
    """The table of a collection, from the study."""
    rows = [row for row in found["rows"] if row["collection"] == collection]
    titles = ["learned from", *(f"epsilon {epsilon:g}" for epsilon in found["settings"]["epsilons"])]
    lines = [[title, *(f"{best(row)[0]:.3f}" for row in rows if row["method"] == method)] for method, title in SHOWN.items()]
    return markdown_table(titles, lines)


def caption(found: Mapping[str, Any], collection: str) -> str:
    (about,) = (one for one in found["collections"] if one["name"] == collection)
    rows = [row for row in found["rows"] if row["collection"] == collection]
    clean = [f"{row['method']} {best(row)[0]:.3f}" for row in rows if not row["epsilon"]]
    widest = max(high - low for _, low, high in map(best, rows)) / 2
    return (
        f"{about['people']:,} people, {about['classes']} classes, {about['tested']:,} test rows, at most ± {widest:.3f}; "
        f"without noise {', '.join(clean)}"
    )


class Arguments(Settings):
    """Of the command line."""

    output: Path = Field(description="folder of the study")
    data: Path = Field(description="folder with the files of the collections")
    embeddings: Path | None = Field(default=None, description="folder that keeps embeddings (default: in the study's)")


def main() -> None:
    settings = parsed(__doc__ or "", Arguments)
    cache = EmbeddingCache(settings.embeddings or settings.output / "embeddings", embedder(settings.model))
    found = study(settings, [COLLECTIONS[name](settings.data, cache.embed) for name in settings.collections], settings.output)
    write_study(settings.output / "aggregates.json", found)
    for name in settings.collections:
        print(f"{name}: {caption(found, name)}:\n\n{table(found, name)}\n")


if __name__ == "__main__":
    main()
