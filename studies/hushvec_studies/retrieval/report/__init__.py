"""The report of a study: one HTML file with everything in it, and its tables and figures as files beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from hushvec_studies.harness.charts import Figure
from hushvec_studies.harness.outputs import write_text
from hushvec_studies.retrieval.figures import save_figures, study_figures
from hushvec_studies.retrieval.mechanism_pairs import mechanism_pairs
from hushvec_studies.retrieval.points import Conditions
from hushvec_studies.retrieval.records import StudyFolder
from hushvec_studies.retrieval.report.page import page_of
from hushvec_studies.retrieval.roc import roc_figures
from hushvec_studies.retrieval.schema import Configuration
from hushvec_studies.retrieval.tables import study_tables, write_each

__all__ = ["write_report"]

REPORT = "report.html"


def write_report(folder: str | os.PathLike[str]) -> Path:
    """Write `report.html`, `tables/` and `figures/` into the folder of a study, from the runs that are done.

    Args:
        folder: of the study.

    Returns:
        The path of report.html: finding, tables, figures, configuration, promises and receipts, in one file. It loads nothing, from no
        network and no other file, holds no script, follows the reader's choice of light or dark, and prints.

    Raises:
        ValueError: no study in the folder, no run of it is done yet, or a file of a run is damaged; the file is named.
        OSError: the folder cannot be read or written.

    Guarantees:
        No text of a document or query is in it, nor in the tables and figures: the rows of a study have none. Names of settings,
        categories and models stand there as they were configured, escaped.
        The file appears whole or not at all.
    """
    study = StudyFolder(Path(folder))
    configuration, records = study.configuration(), study.records()
    if not records:
        raise ValueError(f"{os.fspath(folder)}: must hold at least one run of the study that is done, got none")
    rows = [row for record in records for row in record.rows]
    main = _main(configuration)
    pairs = mechanism_pairs(records, main, configuration.statistics, configuration.seed)
    tables = [*study_tables(rows, main), *([pairs] if pairs.lines else [])]
    write_each(tables, study.path / "tables")
    figures = [*study_figures(rows, main), *roc_figures([(record.rows[0], record.curves) for record in records], main)]
    drawn = {path.stem: path for path in save_figures(figures, study.path / "figures") if path.suffix == ".svg"}
    page = study.path / REPORT
    write_text(page, page_of(configuration, records, tables, _with_drawings(figures, drawn)))
    return page


def _with_drawings(figures: Sequence[Figure], drawn: Mapping[str, Path]) -> list[tuple[Figure, str]]:
    return [(figure, drawn[figure.name].read_text(encoding="utf-8")) for figure in figures]


def _main(configuration: Configuration) -> Conditions:
    """What a study is about, where an ablation or a check of robustness does not change it."""
    return Conditions(
        configuration.data.split,
        configuration.embedding.model,
        configuration.queries.per_document,
        configuration.privacy.projections[0],
    )
