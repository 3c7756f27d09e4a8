"""`hushvec recommend`: which mechanism keeps most at a price, before anything is spent."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hushvec.cli._output import answered, table
from hushvec.cli._parser import Command, option
from hushvec.cli._style import paint, printable
from hushvec.cli.vectors import FILES, open_source, rows_and_fields
from hushvec.cli.vectors.source import Columns
from hushvec.mechanisms import MECHANISMS, PublicCodebook, PublicProjection
from hushvec.mechanisms.recommend import TASKS, PublicData, Recommendation, recommend

WIDTH = 80


class Recommend(Command, name="recommend", examples=(
    ("vectors of 384 elements, to be searched among 10,000", "hushvec recommend --epsilon 8 --dimension 384 --n 10000"),
    ("pure epsilon only", "hushvec recommend --epsilon 4 --delta 0 --dimension 768 --task release"),
    ("a survey with 5 answers and 1,000 people", "hushvec recommend --epsilon 1 --task labels --labels 5 --n 1000"),
)):
    """Compare the mechanisms that fit a task at a given epsilon. Nothing is drawn or charged.

    retrieval  the direction of a noisy vector matters (default)
    release    the vector itself matters, length and all
    mean       the mean over --n people, each with noise of their own
    labels     each person answers with one of --labels labels
    top_k      the --k best of many candidates by private scores"""

    epsilon: float = option("the price of one release to each person in it", required=True)
    delta: float = option("default 1e-5; 0: only mechanisms without delta", 1e-5)
    task: str = option("what the releases are for", "retrieval", choices=tuple(TASKS))
    dimension: int | None = option("elements in a vector; not for labels and top_k", metavar="D")
    n: int | None = option("people; for retrieval: other rows that a release is looked up among")
    labels: int | None = option("for labels: how many", metavar="K")
    k: int | None = option("for top_k: how many candidates are named")
    sensitivity: float | None = option("for top_k: the most that one score moves (default 2 clip_norm)")
    clip_norm: float = option("L2 norm that rows are clipped to", 1.0)
    any_length: bool = option("lengths of rows differ and matter; else all are unit vectors")
    rows_per_person: int = option("rows that one person contributes", 1, metavar="R")
    codebook: Path | None = option("for retrieval: a public codebook (hushvec codebook)", metavar="FILE")
    projection: Path | None = option("a public map, saved by PublicProjection.save", metavar="FILE")
    public_sample: Path | None = option(f"other public rows, to check codebook and map on: {FILES}", metavar="FILE")

    def run(self) -> int:
        if self.dimension is None and self.task not in ("labels", "top_k"):
            raise ValueError(f"--dimension must be given for --task {self.task}: elements in a vector")
        sample = None
        if self.public_sample is not None:
            source = open_source(self.public_sample, Columns())
            sample = np.asarray(rows_and_fields(source)[0], np.float32)
            self.taken = (source.taken(len(sample)),)
        found = recommend(
            1 if self.dimension is None else self.dimension,
            unit_rows=not self.any_length,
            public=PublicData(
                codebook=None if self.codebook is None else PublicCodebook.load(self.codebook),
                projection=None if self.projection is None else PublicProjection.load(self.projection),
                sample=sample,
            ),
            **self.named("epsilon", "delta", "task", "clip_norm", "rows_per_person", "n", "labels", "k", "sensitivity"),
        )
        return answered(self, _as_json(found), *_shown(found, self))


def _as_json(found: Recommendation) -> dict[str, Any]:
    options = [
        {
            "mechanism": option.name,
            "cost": None if option.mechanism is None else list(option.mechanism.cost),
            "grade": option.grade,
            "figures": {name: float(value) for name, value in option.figures.items()},
            "remark": option.remark,
        }
        for option in found.options
    ]
    return {"task": found.task, "mechanism": found.options[0].name, "why": found.why, "options": options}


def _shown(found: Recommendation, options: Recommend) -> Iterator[str]:
    header, *rows = (row[:-1] for row in found.table)  # the remarks do not fit beside the figures
    first, best, *rest = table(header, rows).split("\n")
    yield from (first, paint("good", best), *rest)
    yield from (printable(f"  {option.name}: {option.remark}") for option in found.options if option.remark)
    yield ""
    yield from textwrap.wrap(printable(found.why), WIDTH, break_long_words=False, break_on_hyphens=False)
    if command := _next_command(found, options):
        yield from ("", f"{paint('title', 'Next')}  {paint('name', command)}")


def _next_command(found: Recommendation, options: Recommend) -> str | None:
    """Return the release that was recommended, if a command line can say it."""
    name, mechanism = found.options[0].name, found.mechanism
    if name not in MECHANISMS or options.rows_per_person != 1 or getattr(mechanism, "corpus_size", None) is not None:
        return None
    delta = f" --delta {options.delta:g}" if mechanism.cost[1] else ""
    clip_norm = "" if options.clip_norm == 1 else f" --clip-norm {options.clip_norm:g}"
    return f"hushvec privatize IN -o OUT --mechanism {name} --epsilon {options.epsilon:g}{delta}{clip_norm}"
