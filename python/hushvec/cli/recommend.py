"""`hushvec recommend`: which mechanism keeps most at a price, before anything is spent."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec.cli._arguments import Subparsers, add_command
from hushvec.cli._output import print_json, table
from hushvec.cli._printable import printable, say
from hushvec.cli._style import paint
from hushvec.cli.files import Columns, open_source
from hushvec.mechanisms import MECHANISMS, PublicCodebook, PublicProjection
from hushvec.mechanisms.recommend import TASKS, Recommendation, recommend

WIDTH = 80


def add_to(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "recommend",
        run,
        description=(
            "Compare the mechanisms that fit a task at a given epsilon. Nothing is drawn or charged.\n\n"
            "retrieval  the direction of a noisy vector matters (default)\n"
            "release    the vector itself matters, length and all\n"
            "mean       the mean over --n people, each with noise of their own\n"
            "labels     each person answers with one of --labels labels\n"
            "top_k      the --k best of many candidates by private scores"
        ),
        examples=(
            ("vectors of 384 elements, to be searched among 10,000", "hushvec recommend --epsilon 8 --dimension 384 --n 10000"),
            ("pure epsilon only", "hushvec recommend --epsilon 4 --delta 0 --dimension 768 --task release"),
            ("a survey with 5 answers and 1,000 people", "hushvec recommend --epsilon 1 --task labels --labels 5 --n 1000"),
        ),
    )
    parser.add_argument("--epsilon", type=float, required=True, help="the price of one release to each person in it")
    parser.add_argument("--delta", type=float, default=1e-5, help="default 1e-5; 0: only mechanisms without delta")
    parser.add_argument("--task", choices=tuple(TASKS), default="retrieval", help="what the releases are for (default retrieval)")
    parser.add_argument("--dimension", type=int, metavar="D", help="elements in a vector; not for labels and top_k")
    parser.add_argument("--n", type=int, help="people; for retrieval: other rows that a release is looked up among")
    parser.add_argument("--labels", type=int, metavar="K", help="for labels: how many")
    parser.add_argument("--k", type=int, help="for top_k: how many candidates are named")
    parser.add_argument("--sensitivity", type=float, help="for top_k: the most that one score moves (default 2 clip_norm)")
    parser.add_argument("--clip-norm", type=float, default=1.0, help="L2 norm that rows are clipped to (default 1)")
    parser.add_argument("--any-length", action="store_true", help="lengths of rows differ and matter; else all are unit vectors")
    parser.add_argument("--rows-per-person", type=int, default=1, metavar="R", help="rows that one person contributes (default 1)")
    parser.add_argument("--codebook", type=Path, metavar="FILE", help="for retrieval: a public codebook (hushvec codebook)")
    parser.add_argument("--projection", type=Path, metavar="FILE", help="a public map, saved by PublicProjection.save")
    parser.add_argument("--public-sample", type=Path, metavar="FILE", help="other public rows, to check codebook and map on")


def run(options: argparse.Namespace) -> int:
    found = recommend(
        _dimension(options),
        options.epsilon,
        options.delta,
        task=options.task,
        clip_norm=options.clip_norm,
        unit_rows=not options.any_length,
        rows_per_person=options.rows_per_person,
        n=options.n,
        labels=options.labels,
        k=options.k,
        sensitivity=options.sensitivity,
        codebook=None if options.codebook is None else PublicCodebook.load(options.codebook),
        projection=None if options.projection is None else PublicProjection.load(options.projection),
        public_sample=None if options.public_sample is None else _rows(options.public_sample),
    )
    if options.json:
        print_json(_as_json(found))
    else:
        _print(found, options)
    return 0


def _dimension(options: argparse.Namespace) -> int:
    if options.dimension is None and options.task not in ("labels", "top_k"):
        raise ValueError(f"--dimension must be given for --task {options.task}: elements in a vector")
    return 1 if options.dimension is None else int(options.dimension)


def _rows(path: Path) -> NDArray[np.float32]:
    source = open_source(path, Columns())
    parts = [np.asarray(part.values, np.float32) for part in source.parts()]
    return np.concatenate(parts) if parts else np.empty((0, source.dimension), np.float32)


def _as_json(found: Recommendation) -> dict[str, Any]:
    return {
        "task": found.task,
        "mechanism": found.options[0].name,
        "why": found.why,
        "options": [
            {
                "mechanism": option.name,
                "cost": None if option.mechanism is None else list(option.mechanism.cost),
                "grade": option.grade,
                "figures": {name: float(value) for name, value in option.figures.items()},
                "remark": option.remark,
            }
            for option in found.options
        ],
    }


def _print(found: Recommendation, options: argparse.Namespace) -> None:
    header, *rows = (row[:-1] for row in found.table)  # the remarks do not fit beside the figures
    first, best, *rest = table(header, rows).split("\n")
    print("\n".join([first, paint("good", best), *rest]))
    say(*(f"  {option.name}: {option.remark}" for option in found.options if option.remark), "")
    print("\n".join(textwrap.wrap(printable(found.why), WIDTH, break_long_words=False, break_on_hyphens=False)))
    command = _next_command(found, options)
    if command is not None:
        print(f"\n{paint('title', 'Next')}  {paint('name', command)}")


def _next_command(found: Recommendation, options: argparse.Namespace) -> str | None:
    """The release that was recommended, if a command line can say it."""
    name, mechanism = found.options[0].name, found.mechanism
    if name not in MECHANISMS or options.rows_per_person != 1 or getattr(mechanism, "corpus_size", None) is not None:
        return None
    delta = f" --delta {options.delta:g}" if mechanism.cost[1] else ""
    clip_norm = "" if options.clip_norm == 1 else f" --clip-norm {options.clip_norm:g}"
    return f"hushvec privatize IN -o OUT --mechanism {name} --epsilon {options.epsilon:g}{delta}{clip_norm}"
