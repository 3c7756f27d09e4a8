"""What each protection keeps and gives away, by `hushvec.audit.protection`: settings, collections, measurements."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

import hushvec
from hushvec.audit import protection
from hushvec.audit.bootstrap import bootstrap
from hushvec_studies.evaluation.collection import BANKING, NEWSGROUPS, paths_of
from hushvec_studies.evaluation.vectors import Embed, Hashed, questions
from hushvec_studies.harness import settings as harness
from hushvec_studies.harness.measurements import Measurement, grid, measured
from hushvec_studies.harness.outputs import surroundings, versions
from hushvec_studies.harness.rows import index_of, unit
from hushvec_studies.harness.settings import Distinct, Seed, Text, as_json, one_of
from hushvec_studies.protections.protections import PROTECTIONS, Rows
from hushvec_studies.retrieval.corpora import load_corpus

VERSION = 1  # of what a measurement does
ASKED, FIRST = 1000, 10  # clean questions, and how many answers each has
KEPT, KEPT_CLEAN = "first ten kept", "first ten kept, clean questions"
Texts = tuple[Sequence[str], Sequence[str]]  # and the label of each


@dataclass(frozen=True)
class Collection(Hashed):
    """Rows that are protected, the number of the label of each, and rows of other texts, which are public."""

    name: str
    rows: Rows
    labels: NDArray[np.int64]
    public: Rows


def banking(folder: Path) -> Texts:
    kept, _ = questions(folder)
    return [one["text"] for one in kept], [one["label"] for one in kept]


def newsgroups(folder: Path) -> Texts:
    corpus = load_corpus(paths_of(NEWSGROUPS, folder)[0], min_tokens=1, splits="given")
    return corpus.texts, corpus.categories


COLLECTIONS = {BANKING.name: banking, NEWSGROUPS.name: newsgroups}


class Settings(harness.Settings):
    """The study's arguments."""

    only: Distinct[Annotated[str, one_of(PROTECTIONS)]] = Field(default=tuple(PROTECTIONS), description="protections")
    collections: Distinct[Annotated[str, one_of(COLLECTIONS)]] = Field(default=tuple(COLLECTIONS), description="collections of rows")
    rows: Annotated[int, Field(ge=100)] = Field(default=4000, description="protected rows of each collection, drawn by the seed")
    public: Annotated[int, Field(ge=10)] = Field(default=1000, description="other rows, which a codebook is fitted on")
    pairs: Distinct[int] = Field(default=(10, 20, 50, 100, 200, 500, 1000), description="numbers of known pairs")
    model: Text = Field(default="all-MiniLM-L6-v2", description="embedding model")
    seed: Seed = Field(default=2026, description="of the rows, of protections that take a seed, and of resampling")
    resamples: Annotated[int, Field(ge=1)] = Field(default=1000, description="of the bootstrap")


def collection(name: str, folder: Path, embed: Embed, settings: Settings) -> Collection:
    texts, labels = COLLECTIONS[name](folder)
    order = np.random.default_rng(settings.seed).permutation(len(texts))[: settings.rows + settings.public]
    vectors = unit(embed([texts[place] for place in order]))
    numbers = np.unique(labels, return_inverse=True)[1].astype(np.int64)[order]
    return Collection(name, vectors[: settings.rows], numbers[: settings.rows], vectors[settings.rows :])


@dataclass(frozen=True, kw_only=True)
class Cell(Measurement):
    """One protection of one collection."""

    protection: str
    data: Collection
    settings: Settings

    @property
    def key(self) -> Mapping[str, Any]:
        made_by = {"protection": self.protection, "made_by": PROTECTIONS[self.protection].made_by}
        settings = self.settings.model_dump(mode="json", include={"pairs", "seed", "resamples"})
        return {"version": VERSION, "hushvec": hushvec.__version__, "data": self.data.digest, **made_by, **settings}

    @property
    def label(self) -> str:
        return f"{self.data.name}, {self.protection}"


def measure(cell: Cell) -> dict[str, Any]:
    """All about one protection, with a line for each attack and each measure of use."""
    chosen, data, settings = PROTECTIONS[cell.protection], cell.data, cell.settings
    protected, receipt = chosen.of(data.rows, data.public, settings.seed)
    shared: dict[str, Any] = {"resamples": settings.resamples, "seed": settings.seed}
    result = protection(data.rows, protected, labels=data.labels, receipt=receipt, pairs=settings.pairs, **shared)
    useful = dict(result.useful)
    if chosen.clean_questions:
        clean = bootstrap({KEPT_CLEAN: kept(data.rows, protected)}, **shared, limits=(0.0, 1.0))
        useful[KEPT_CLEAN] = 1.0, clean[KEPT_CLEAN]
    found = [
        (f"{one.attack}: {one.measures}", one.value, {"pairs": one.pairs, "chance": one.chance, "allowed": one.bound})
        for one in result.findings
    ]
    found += [(name, after, {"before": before}) for name, (before, after) in useful.items()]
    about = {"collection": data.name, "protection": cell.protection}
    told = {name: getattr(result, name) for name in ("epsilon", "half", "weak", "refuted")}
    lines = [{**about, "what": what, "value": [one.value, one.low, one.high], **more} for what, one, more in found]
    return {"about": {**about, "made_by": chosen.made_by, **told}, "lines": lines}


def kept(rows: Rows, protected: NDArray[Any]) -> NDArray[np.float64]:
    """The share of the first ten answers that each clean question keeps among protected rows; the first rows ask the others."""
    asked = min(ASKED, len(rows) // 4)
    before, after = (index_of(unit(one[asked:])).search(rows[:asked], FIRST).ids for one in (rows, protected))
    return np.array([len(np.intersect1d(*both)) / FIRST for both in zip(before, after)])


def study(settings: Settings, data: Sequence[Collection], folder: Path, *, workers: int = 0) -> dict[str, Any]:
    """What protections.json holds, after everything that is missing was measured; what is not installed is left out."""
    here = [name for name in settings.only if PROTECTIONS[name].made_by]
    for name in sorted({*settings.only} - {*here}):
        print(f"{name}: left out, needs {PROTECTIONS[name].package}, which is not installed", file=sys.stderr)
    if not here:
        raise ValueError("only must name a protection that can be made here, got none")
    wanted = grid(lambda **axes: Cell(**axes, settings=settings), data=data, protection=here)
    made = measured([(cell, measure) for cell in wanted], folder, "attacking", workers=workers).rows
    rows = [made[cell.digest] for cell in wanted]
    return {
        "settings": as_json(settings),
        "surroundings": {name: surroundings()[name] for name in ("hushvec", "python")} | versions("numpy"),
        "collections": [{"name": one.name, "rows": len(one.rows), "labels": int(one.labels.max()) + 1} for one in data],
        "protections": [row["about"] for row in rows],
        "lines": [line for row in rows for line in row["lines"]],
    }
