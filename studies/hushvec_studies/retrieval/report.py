"""The report of a study: one HTML file with everything in it, and its tables and figures as files beside it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import hushvec
from hushvec_studies.harness.charts import Figure
from hushvec_studies.harness.measurements import dotted
from hushvec_studies.harness.outputs import write_text
from hushvec_studies.harness.pages import rendered, themed
from hushvec_studies.harness.tables import Table, number_text
from hushvec_studies.retrieval.columns import COLUMNS, Row
from hushvec_studies.retrieval.configuration import Configuration, to_values
from hushvec_studies.retrieval.figures import roc_figures, save_figures, study_figures
from hushvec_studies.retrieval.findings import Frontier, finding
from hushvec_studies.retrieval.points import Conditions
from hushvec_studies.retrieval.records import Record, StudyFolder
from hushvec_studies.retrieval.tables import mechanism_pairs, study_tables, write_each

__all__ = ["write_report"]

REPORT = "report.html"


def write_report(folder: str | os.PathLike[str]) -> Path:
    """Write `report.html`, `tables/` and `figures/` into the folder of a study, from the runs that are done; the path of the
    page.

    Raises:
        ValueError: no study in the folder, no run of it is done yet, or a file of a run is damaged; the file is named.

    Guarantees:
        The page has everything in one file that appears whole or not at all, loads nothing, holds no script, follows the reader's
        choice of light or dark, and prints. No text of a document or query is in it, nor in the tables and figures: the rows of a
        study have none. Names of settings, categories and models stand there as they were configured, escaped.
    """
    study = StudyFolder(Path(folder))
    configuration, records = study.configuration(), study.records()
    if not records:
        raise ValueError(f"{os.fspath(folder)}: must hold at least one run of the study that is done, got none")
    rows = [row for record in records for row in record.rows]
    # what a study is about, where an ablation or a check of robustness does not change it
    data, model, queries, privacy = configuration.data, configuration.embedding, configuration.queries, configuration.privacy
    main = Conditions(data.split, model.model, queries.per_document, privacy.projections[0])
    pairs = mechanism_pairs(records, main, configuration.statistics, configuration.seed)
    tables = [*study_tables(rows, main), *([pairs] if pairs.lines else [])]
    write_each(tables, study.path / "tables")
    figures = [*study_figures(rows, main), *roc_figures([(record.rows[0], record.curves) for record in records], main)]
    paths = {path.stem: path for path in save_figures(figures, study.path / "figures") if path.suffix == ".svg"}
    drawn = [(figure, paths[figure.name].read_text(encoding="utf-8")) for figure in figures]
    page = study.path / REPORT
    write_text(page, page_of(configuration, records, tables, drawn))
    return page


# ---- the page ----


# Fields of a receipt that a reader looks for first, in the order in which they are shown; a receipt shows those that it has.
_RECEIPT_FIELDS = ("mechanism", "epsilon", "delta", "sigma", "scale", "sensitivity", "clip_norm", "per", "adjacency", "key_source")
Drawn = tuple[Figure, str]

# Sections of tables and figures: name, title, tables, beginnings of the names of figures.
_SHOWN = (
    ("frontier", "Use against attack", ("frontier", "best_settings"), ("frontier_",)),
    ("attacks", "Attacks and their bounds", ("attacks",), ("attack_", "roc_")),
    ("recall", "What is still found", ("statistical_analysis", "mechanisms"), ("recall_k", "recall_difference")),
    (
        "ablations",
        "One thing changed at a time",
        ("ablation_k", "ablation_queries", "ablation_projection"),
        ("ablation_",),
    ),
    ("robustness", "Other texts, models and seeds", ("robustness",), ()),
    ("performance", "Time and memory", ("performance",), ()),
    ("settings", "Every setting", ("summary",), ()),
)


class Section(NamedTuple):
    """A part of the page: figures of the largest k, and of none, in the open, those of other k folded away, then the tables."""

    name: str
    title: str
    figures: Sequence[dict[str, Any]] = ()
    folded: Sequence[tuple[int, list[dict[str, Any]]]] = ()
    tables: Sequence[Table] = ()


class _Grid(NamedTuple):
    titles: list[str]
    lines: list[list[str]]


def page_of(
    configuration: Configuration, records: Sequence[Record], made_tables: Sequence[Table], figures: Sequence[Drawn]
) -> str:
    """The whole HTML document of a study with at least one run."""
    rows = [row for record in records for row in record.rows]
    tables = {table.name: table for table in made_tables}
    runs = [_promised(record) for record in records if record.receipts or record.promises]
    shown = [
        _section(name, title, names, [one for one in figures if one[0].name.startswith(beginnings)], tables)
        for name, title, names, beginnings in _SHOWN
    ]
    found = finding(rows)
    asked = configuration.queries.per_document, configuration.privacy.projections[0]
    main = (configuration.data.split, configuration.embedding.model, configuration.seed, *asked)
    here = [frontier for frontier in found.frontiers if (*frontier.texts[:-1], frontier.projection) == main]
    return rendered(
        "retrieval.html",
        title=f"Private retrieval: {configuration.name}",
        facts=_facts(rows),
        sections=[
            Section("finding", "Finding"),
            *(one for one in shown if one.figures or one.tables),
            *([Section("receipts", "Promises and receipts")] if runs else []),
            Section("configuration", "Configuration"),
            Section("reading", "How to read this"),
        ],
        finding=found,
        main_frontiers=_frontiers(here),
        other_frontiers=_frontiers([frontier for frontier in found.frontiers if frontier not in here]),
        receipts=[line for record in records for line in _receipts(record)],
        runs=runs,
        configuration=[
            (key, json.dumps(value, ensure_ascii=False).strip('"')) for key, value in dotted(to_values(configuration))
        ],
        columns=[(column.name, column.meaning) for column in COLUMNS],
        version=hushvec.__version__,
    )


def _facts(rows: Sequence[Row]) -> list[tuple[str, str]]:
    times = sorted(row["timestamp"] for row in rows if row["timestamp"])
    return [
        ("runs", f"{len({row['run_id'] for row in rows}):,}"),
        ("documents searched", _listed(rows, "num_documents")),
        ("queries", _listed(rows, "num_queries")),
        ("embedding model", _listed(rows, "embedding_model")),
        ("part of the corpus", _listed(rows, "dataset_split")),
        ("results of a search, k", _listed(rows, "k")),
        ("candidates of the attacks", _listed(rows, "num_candidates")),
        ("shadow models", _listed(rows, "shadow_models")),
        ("seed", _listed(rows, "seed")),
        ("last run ended", times[-1][:16].replace("T", " ") if times else "–"),
        ("commit", _listed(rows, "git_commit", 10)),
        ("hushvec", _listed(rows, "hushvec_version")),
    ]


def _listed(rows: Sequence[Row], name: str, length: int | None = None) -> str:
    values = dict.fromkeys(row[name] for row in rows if row[name] is not None)
    return (
        ", ".join(f"{value:,}" if isinstance(value, int) and name != "seed" else str(value)[:length] for value in values) or "–"
    )


def _section(name: str, title: str, names: Sequence[str], figures: Sequence[Drawn], tables: Mapping[str, Table]) -> Section:
    by_depth: dict[int, list[dict[str, Any]]] = {}
    for one, svg in figures:
        by_depth.setdefault(_depth(one), []).append(_figure(one, svg))
    largest = max(by_depth, default=-1)
    return Section(
        name,
        title,
        [_figure(one, svg) for one, svg in figures if _depth(one) in (largest, -1)],
        [(k, by_depth[k]) for k in sorted(by_depth, reverse=True) if k not in (largest, -1)],
        [tables[one] for one in names if one in tables],
    )


def _figure(one: Figure, drawn: str) -> dict[str, Any]:
    return {"title": one.title, "caption": one.caption, "svg": themed(drawn)}


def _depth(one: Figure) -> int:
    """The k at the end of a figure's name, -1 where it has none."""
    end = one.name.rpartition("_k")[2]
    return int(end) if end.isdecimal() else -1


def _frontiers(frontiers: Sequence[Frontier]) -> _Grid:
    titles = ("noise", "split", "model", "seed", "queries", "public map", "k", "retrieval survives", "attacks fail", "both at ε")
    lines = [
        (
            f"{frontier.sides}, {frontier.noise}",
            *(str(part) for part in (*frontier.texts[:-1], frontier.projection)),
            str(frontier.k),
            _from_epsilon("from", frontier.survives_from),
            _from_epsilon("up to", frontier.fails_to),
            ", ".join(number_text(epsilon) for epsilon in frontier.both) or "none",
        )
        for frontier in frontiers
    ]
    # a column that says the same in every line says nothing
    kept = [place for place in range(len(titles)) if place == 0 or place > 5 or len({line[place] for line in lines}) > 1]
    return _Grid([titles[place] for place in kept], [[line[place] for place in kept] for line in lines])


def _from_epsilon(words: str, epsilon: float | None) -> str:
    return "at none tried" if epsilon is None else f"{words} ε = {number_text(epsilon)}"


def _receipts(record: Record) -> Iterator[tuple[str, str, str]]:
    for side, receipt in record.receipts.items():
        known = ((name, receipt[name]) for name in _RECEIPT_FIELDS if receipt.get(name) is not None)
        shown = (f"{name} {number_text(value) if isinstance(value, float) else value}" for name, value in known)
        yield _run_label(record.rows[0]), side, ", ".join(shown)


def _promised(record: Record) -> dict[str, Any]:
    said = json.dumps(dict(record.receipts), indent=2, ensure_ascii=False) if record.receipts else ""
    return {"label": _run_label(record.rows[0]), "promises": record.promises, "receipts": said}


def _run_label(row: Row) -> str:
    given = [
        row[name] for name in ("epsilon_doc", "epsilon_query", "epsilon_score") if row[name] is not None and row[name] != math.inf
    ]
    noise = f"{row['sides']}, {row['noise']}, ε {' / '.join(number_text(epsilon) for epsilon in dict.fromkeys(given))}"
    parts = [
        "no noise" if row["sides"] == "none" else noise,
        row["dataset_split"],
        f"seed {row['seed']}",
        f"{row['queries_per_document']} queries",
    ]
    if row["projection"] != "none":
        parts.append(f"map {row['projection']}")
    return ", ".join(str(part) for part in parts)
