"""The report of a study: one HTML file with everything in it, and its tables and figures as files beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import hushvec
from hushvec_studies.harness.charts import Figure
from hushvec_studies.harness.measurements import dotted
from hushvec_studies.harness.outputs import write_text
from hushvec_studies.harness.pages import rendered, themed
from hushvec_studies.harness.tables import Table
from hushvec_studies.retrieval.columns import COLUMNS, Row
from hushvec_studies.retrieval.configuration import Configuration, to_values
from hushvec_studies.retrieval.figures import save_figures, study_figures
from hushvec_studies.retrieval.findings import finding
from hushvec_studies.retrieval.points import Conditions
from hushvec_studies.retrieval.records import StudyFolder
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
    figures = study_figures(rows, main)
    paths = {path.stem: path for path in save_figures(figures, study.path / "figures") if path.suffix == ".svg"}
    drawn = [(figure, paths[figure.name].read_text(encoding="utf-8")) for figure in figures]
    page = study.path / REPORT
    write_text(page, page_of(configuration, rows, tables, drawn))
    return page


# ---- the page ----


Drawn = tuple[Figure, str]

# Sections of tables and figures: name, title, tables, beginnings of the names of figures.
_SHOWN = (
    ("frontier", "Use against attack", ("frontier", "best_settings"), ("frontier_",)),
    ("attacks", "Attacks and their bounds", ("attacks",), ()),
    ("recall", "What is still found", ("statistical_analysis", "mechanisms"), ("recall_difference",)),
    ("ablations", "One thing changed at a time", ("ablation_k", "ablation_queries", "ablation_projection"), ("ablation_",)),
    ("robustness", "Other texts, models and seeds", ("robustness",), ()),
    ("settings", "Every setting", ("summary",), ()),
)


class Section(NamedTuple):
    """A part of the page: figures of the largest k, and of none, in the open, those of other k folded away, then the tables."""

    name: str
    title: str
    figures: Sequence[dict[str, Any]] = ()
    folded: Sequence[tuple[int, list[dict[str, Any]]]] = ()
    tables: Sequence[Table] = ()


def page_of(configuration: Configuration, rows: Sequence[Row], made_tables: Sequence[Table], figures: Sequence[Drawn]) -> str:
    """The whole HTML document of a study with at least one run."""
    tables = {table.name: table for table in made_tables}
    shown = [
        _section(name, title, names, [one for one in figures if one[0].name.startswith(beginnings)], tables)
        for name, title, names, beginnings in _SHOWN
    ]
    return rendered(
        "retrieval.html",
        title=f"Private retrieval: {configuration.name}",
        facts=_facts(rows),
        sections=[
            Section("finding", "Finding"),
            *(one for one in shown if one.figures or one.tables),
            Section("configuration", "Configuration"),
            Section("reading", "How to read this"),
        ],
        finding=finding(rows),
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


