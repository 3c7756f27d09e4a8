"""The report of a study: one HTML file with everything in it, and its tables and figures as files beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
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
    """A part of the page: its figures, those of the largest k first, then its tables."""

    name: str
    title: str
    figures: Sequence[dict[str, Any]] = ()
    tables: Sequence[Table] = ()


def page_of(configuration: Configuration, rows: Sequence[Row], made_tables: Sequence[Table], figures: Sequence[Drawn]) -> str:
    """The whole HTML document of a study with at least one run."""
    tables = {table.name: table for table in made_tables}
    shown = [
        Section(
            name,
            title,
            [
                {"title": one.title, "caption": one.caption, "svg": themed(svg)}
                for one, svg in figures
                if one.name.startswith(beginnings)
            ],
            [tables[one] for one in names if one in tables],
        )
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


# What the head of the page says of the runs: names for people, and columns.
_FACTS = {
    "documents searched": "num_documents", "queries": "num_queries", "embedding model": "embedding_model",
    "part of the corpus": "dataset_split", "results of a search, k": "k", "candidates of the attacks": "num_candidates",
    "shadow models": "shadow_models", "seed": "seed", "commit": "git_commit", "hushvec": "hushvec_version",
}


def _facts(rows: Sequence[Row]) -> list[tuple[str, str]]:
    times = sorted(row["timestamp"] for row in rows if row["timestamp"])
    return [
        ("runs", f"{len({row['run_id'] for row in rows}):,}"),
        *((name, _listed(rows, column)) for name, column in _FACTS.items()),
        ("last run ended", times[-1][:16].replace("T", " ") if times else "–"),
    ]


def _listed(rows: Sequence[Row], name: str) -> str:
    values = dict.fromkeys(row[name] for row in rows if row[name] is not None)
    return ", ".join(f"{value:,}" if isinstance(value, int) and name != "seed" else str(value) for value in values) or "–"
