"""`hushvec study protections`: its arguments, the study from data to protections.json, and the tables of docs/protections.md."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hushvec_studies.evaluation.collection import SOURCES
from hushvec_studies.harness.embeddings import EmbeddingCache, embedder
from hushvec_studies.harness.outputs import show, write_study
from hushvec_studies.harness.settings import add_options, checked, given
from hushvec_studies.harness.tables import markdown_table
from hushvec_studies.protections.measure import KEPT, KEPT_CLEAN, Settings, collection, study
from hushvec_studies.protections.protections import PROTECTIONS

DESCRIPTION = """\
What protects an embedding? Protections of other packages, quantization, noise and releases of hushvec, attacked in five ways by
`hushvec.audit.protection`, beside what they keep of a search and of a classifier (docs/protections.md).

Writes protections.json into the folder, from one file for each measurement in its folder "measured": what is there is not measured
again. Packages that are not installed are left out: turboquant-vectors, hadamask, privrag-guard, ironcore-alloy."""

NAMED = "no pairs: rows named"
COLUMNS = (
    ("first ten kept", KEPT, None),
    ("clean questions", KEPT_CLEAN, None),
    ("same space", "same space: rows named", None),
    *((f"{pairs:,} pairs", "known pairs: rows named", pairs) for pairs in (50, 200, 1000)),
    ("no pairs", NAMED, None),
    ("topics, no pairs", "no pairs: topics right", None),
    ("membership", "membership: area under ROC", None),
    ("labels", "reading: labels right", None),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the study. `--json` is the caller's."""
    parser.add_argument("-o", "--output", type=Path, default=Path("study-protections"), metavar="DIR", help="folder of the study")
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="folder with the files of the collections")
    parser.add_argument("--embeddings", type=Path, metavar="DIR", help="folder that keeps embeddings (default: in the study's)")
    parser.add_argument("--workers", type=int, default=0, metavar="N", help="processes, one thread each (default 0: this one)")
    add_options(parser, Settings)


def run_protections(options: argparse.Namespace) -> int:
    """Measure what the options ask for, write protections.json, and print its tables or, with options.json, all of it."""
    settings = checked(Settings, given(options, Settings))
    cache = EmbeddingCache(options.embeddings or options.output / "embeddings", embedder(settings.model))
    data = [collection(name, options.data, cache.embed, settings) for name in settings.collections]
    found = study(settings, data, options.output, workers=options.workers)
    write_study(options.output / "protections.json", found)
    return show(options, found, [part for one in data for part in (caption(found, one.name), "", table(found, one.name), "")])


def figure(found: Mapping[str, Any], collection: str, protection: str, what: str, pairs: int | None = None) -> Any:
    """The line of one figure: its value with an interval, chance, and what the receipt allows; {} if it was not measured."""
    wanted = (collection, protection, what, pairs)
    lines = (line for line in found["lines"] if (line["collection"], line["protection"], line["what"], line.get("pairs")) == wanted)
    return next(lines, {})


def table(found: Mapping[str, Any], collection: str) -> str:
    """A line for each protection, and last what is reached by chance."""
    lines, by_chance = [], []
    for one in (one for one in found["protections"] if one["collection"] == collection):
        figures = [figure(found, collection, one["protection"], what, pairs) for _, what, pairs in COLUMNS]
        by_chance.append([f"{line['chance']:.2g}" if "chance" in line else "" for line in figures])
        bound = figure(found, collection, one["protection"], NAMED)["allowed"]
        half = "not reached" if one["half"] is None else f"{one['half']:,}"
        values = [f"{line['value'][0]:.3f}" if line else "-" for line in figures]
        lines.append([PROTECTIONS[one["protection"]].title, *values, half, "no bound" if bound is None else f"{bound:.4g}"])
    titles = ["protection", *(title for title, _, _ in COLUMNS), "pairs for half", "naming allowed"]
    return markdown_table(titles, [*lines, ["*chance*", *map(max, *by_chance, [""] * len(COLUMNS)), "", ""]])


def caption(found: Mapping[str, Any], collection: str) -> str:
    (about,) = (one for one in found["collections"] if one["name"] == collection)
    widest = max(line["value"][2] - line["value"][1] for line in found["lines"] if line["collection"] == collection) / 2
    return f"{SOURCES[collection].title}, {about['rows']:,} rows, {about['labels']} labels; 95 % intervals at most ± {widest:.3f}"
