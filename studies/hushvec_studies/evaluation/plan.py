"""Settings of the evaluation, and the measurements that they ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from hushvec_studies.evaluation import collection, vectors
from hushvec_studies.evaluation.attacks.decoders import TFIDF_SVD, WORDLLAMA
from hushvec_studies.evaluation.attacks.inversion import INVERTED, measure_inversion
from hushvec_studies.evaluation.attacks.measure import Target, measure_attacks, sought, target
from hushvec_studies.evaluation.cells import PRIVATE_QUERY, TEST, TRAINING, Cell, measure_labels, measure_search, timed
from hushvec_studies.evaluation.collection import BANKING, NEWSGROUPS, SCIFACT, SENTENCES, SOURCES
from hushvec_studies.evaluation.contenders import DOCUMENTS, MECHANISMS, NONE, QUESTIONS
from hushvec_studies.evaluation.texts import rewriting_cells, sentences
from hushvec_studies.harness import settings as harness
from hushvec_studies.harness.measurements import Measure, Measurement, grid
from hushvec_studies.harness.settings import Distinct, Positive, Seed, Share, Text, one_of

FEWEST_DOCUMENTS = 64
EPSILONS = (2.0, 4.0, 8.0, 16.0, 32.0)
Wanted = tuple[Measurement, Measure]


class Settings(harness.Settings):
    """The study's arguments."""

    benchmarks: Distinct[Annotated[str, one_of(SOURCES)]] = Field(
        default=tuple(SOURCES), description=f"of {', '.join(SOURCES)}; not with --corpus"
    )
    mechanisms: Distinct[Annotated[str, one_of(MECHANISMS)]] = Field(
        default=MECHANISMS, description=f"of {', '.join(MECHANISMS)}"
    )
    epsilons: Distinct[Positive] = Field(default=EPSILONS, description="of one released row")
    delta: Share = Field(default=1e-5, description="of Gaussian noise")
    draws: Annotated[int, Field(ge=1)] = Field(
        default=3, description="releases of each row, or splits into public and private documents"
    )
    min_tokens: Annotated[int, Field(ge=0)] = Field(
        default=1, description="documents of fewer words are left out, and the page counts them"
    )
    success: Share = Field(default=0.01, description="share of rows that an attack has to recognize beyond a guess to succeed")
    model: Text = Field(default="all-MiniLM-L6-v2", description="embedding model")
    strangers: Distinct[Annotated[str, one_of((TFIDF_SVD, WORDLLAMA))]] = Field(
        default=(TFIDF_SVD,), description=f"embedders of an adversary without the model, of {TFIDF_SVD}, {WORDLLAMA}"
    )
    inverted: Annotated[int, Field(ge=2)] = Field(default=24, description="questions of Banking77 that a search looks for")
    seed: Seed = Field(default=2026, description="of noise, codebooks and resampling")
    confidence: Share = Field(default=0.95, description="of the intervals")
    resamples: Annotated[int, Field(ge=1)] = Field(default=1000, description="of the bootstrap")

    @property
    def intervals(self) -> dict[str, Any]:
        return {"confidence": self.confidence, "resamples": self.resamples, "seed": self.seed}


@dataclass(frozen=True)
class Task:
    """One use of one data set: what is released, what a cell measures, and which mechanisms are compared.

    Args:
        target: what the other attacks are measured on; None: on the rows of this task none is.
        inverted: texts that are looked for by their releases; None: none are.
    """

    name: str
    side: str
    data: vectors.Searched | vectors.Posts | vectors.Labelled
    measure: Measure
    mechanisms: Sequence[str]
    target: Target | None = None
    inverted: Target | None = None

    def cells(self, settings: Settings) -> list[Wanted]:
        """Every mechanism at every epsilon, after the measurement without noise."""
        return self._measured(settings, self.data, self.measure, self.mechanisms)

    def attack_cells(self, settings: Settings) -> list[Wanted]:
        """The same for the attacks beside re-identification."""
        cells = []
        if self.target is not None:
            cells += self._measured(settings, self.target, measure_attacks, self.mechanisms)
        if self.inverted is not None:
            attacked = [mechanism for mechanism in self.mechanisms if mechanism in INVERTED]
            cells += self._measured(settings, self.inverted, measure_inversion, attacked)
        return cells

    def _measured(
        self, settings: Settings, data: vectors.Hashed, measure: Measure, mechanisms: Sequence[str]
    ) -> list[Wanted]:
        given = {"delta": settings.delta, "draws": settings.draws, **settings.intervals}
        cell = partial(Cell, task=self.name, side=self.side, data=data, **given)
        wanted = [cell(mechanism=NONE, epsilon=None), *grid(cell, mechanism=mechanisms, epsilon=settings.epsilons)]
        return [(one, partial(timed, measure)) for one in wanted]


def benchmark_tasks(settings: Settings, folder: Path, embed: vectors.Embed) -> list[Task]:
    """The tasks of the benchmarks that are asked for."""
    made: dict[str, Callable[[], list[Task]]] = {
        SCIFACT.name: lambda: search_tasks(
            settings,
            embed,
            collection.scifact(folder, settings.min_tokens, validation=False),
            collection.scifact(folder, settings.min_tokens, validation=True),
        ),
        NEWSGROUPS.name: lambda: _posts(settings, vectors.newsgroups(folder, embed, settings.min_tokens)),
        BANKING.name: lambda: _labels(settings, vectors.banking(folder, embed)),
    }
    return [task for name in settings.benchmarks if name in made for task in made[name]()]


def rewritings(settings: Settings, folder: Path, embed: vectors.Embed) -> list[Wanted]:
    if SENTENCES.name not in settings.benchmarks:
        return []
    return rewriting_cells(sentences(folder, embed, settings.model, settings.seed), settings.epsilons, **settings.intervals)


def search_tasks(
    settings: Settings, embed: vectors.Embed, given: collection.Collection, asked: collection.Collection | None = None
) -> list[Task]:
    """Private documents of a collection, at least 64, and private questions of it or of `asked`."""
    if len(given.documents) < FEWEST_DOCUMENTS:
        raise ValueError(
            f"{given.name}: must have at least {FEWEST_DOCUMENTS} documents, half of which are public, got {len(given.documents)}"
        )
    documents = vectors.searched(given, embed)
    questions = documents if asked is None else vectors.searched(asked, embed)
    attacked = target(documents, settings.strangers)
    kinds = (*settings.mechanisms, PRIVATE_QUERY)
    return [
        Task(f"{given.name}, private documents", DOCUMENTS, documents, measure_search, settings.mechanisms, attacked),
        Task(f"{given.name}, private questions", QUESTIONS, questions, measure_search, kinds),
    ]


def _posts(settings: Settings, data: vectors.Posts) -> list[Task]:
    attacked = target(data, settings.strangers)
    return [Task(f"{data.name}, private documents", DOCUMENTS, data, measure_search, settings.mechanisms, attacked)]


def _labels(settings: Settings, data: vectors.Labelled) -> list[Task]:
    attacked = target(data, settings.strangers), sought(data, settings.model, settings.inverted, settings.seed)
    return [
        Task(f"{data.name}, private {side} rows", side, data, measure_labels, settings.mechanisms, *given)
        for side, given in ((TRAINING, attacked), (TEST, ()))
    ]
