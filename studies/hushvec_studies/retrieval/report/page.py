"""The page of a report, section by section."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any

from hushvec._native import _core
from hushvec_studies.harness.charts import Figure
from hushvec_studies.retrieval.columns import COLUMNS, Row
from hushvec_studies.retrieval.configuration import to_values
from hushvec_studies.retrieval.findings import Finding, Frontier, finding
from hushvec_studies.retrieval.points import number_text
from hushvec_studies.retrieval.records import Record
from hushvec_studies.retrieval.report.elements import code, facts, figure, folded, grid, paragraph, paragraphs, section, table
from hushvec_studies.retrieval.schema import Configuration
from hushvec_studies.retrieval.tables import Table

# Fields of a receipt that a reader looks for first, in the order in which they are shown; a receipt shows those that it has.
_RECEIPT_FIELDS = (
    "mechanism",
    "epsilon",
    "delta",
    "sigma",
    "scale",
    "sensitivity",
    "clip_norm",
    "per",
    "adjacency",
    "key_source",
)
Drawn = tuple[Figure, str]

_NOTHING_LOADED = "default-src 'none'; style-src 'unsafe-inline'"


def page_of(
    configuration: Configuration, records: Sequence[Record], made_tables: Sequence[Table], figures: Sequence[Drawn]
) -> str:
    """The whole HTML document.

    Args:
        configuration: of the study.
        records: of its runs, at least one.
        made_tables: by `study_tables` from their rows.
        figures: by `study_figures`, each with its SVG.
    """
    rows = [row for record in records for row in record.rows]
    tables = {table.name: table for table in made_tables}
    sections = [
        _finding(finding(rows), configuration),
        _of_tables_and_figures(
            "frontier", "Use against attack", ("frontier", "best_settings"), _named(figures, "frontier_"), tables
        ),
        _of_tables_and_figures("attacks", "Attacks and their bounds", ("attacks",), _named(figures, "attack_", "roc_"), tables),
        _of_tables_and_figures(
            "recall", "What is still found", ("statistical_analysis",), _named(figures, "recall_k", "recall_difference"), tables
        ),
        _of_tables_and_figures(
            "ablations",
            "One thing changed at a time",
            ("ablation_k", "ablation_queries", "ablation_projection"),
            _named(figures, "ablation_"),
            tables,
        ),
        _of_tables_and_figures("robustness", "Other texts, models and seeds", ("robustness",), [], tables),
        _of_tables_and_figures("performance", "Time and memory", ("performance",), [], tables),
        _of_tables_and_figures("settings", "Every setting", ("summary",), [], tables),
        _promises(records),
        _configuration(configuration),
        _reading(),
    ]
    shown = [(name, title, content) for name, title, content in sections if content]
    title = f"Private retrieval: {configuration.name}"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_NOTHING_LOADED}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_style()}</style>\n</head>\n<body>\n"
        f"{_head(title, rows, shown)}<main>{''.join(section(*one) for one in shown)}</main>\n"
        f"<footer>{paragraph(f'Made by hushvec {_core.__version__} from the files of the runs beside this page.')}</footer>\n"
        "</body>\n</html>\n"
    )


def _head(title: str, rows: Sequence[Row], shown: Iterable[tuple[str, str, str]]) -> str:
    links = "".join(f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title, _ in shown)
    times = sorted(row["timestamp"] for row in rows if row["timestamp"])
    pairs = [
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
    return f"<header><h1>{escape(title)}</h1>{facts(pairs)}<nav><ul>{links}</ul></nav></header>\n"


def _listed(rows: Sequence[Row], name: str, length: int | None = None) -> str:
    values = dict.fromkeys(row[name] for row in rows if row[name] is not None)
    return (
        ", ".join(f"{value:,}" if isinstance(value, int) and name != "seed" else str(value)[:length] for value in values) or "–"
    )


# ---- sections: (name, title, content), the content empty where there is nothing to show ----

_Section = tuple[str, str, str]


def _finding(found: Finding, configuration: Configuration) -> _Section:
    asked = configuration.queries.per_document, configuration.privacy.projections[0]
    main = (configuration.data.split, configuration.embedding.model, configuration.seed, *asked)
    here = [frontier for frontier in found.frontiers if (*frontier.texts[:-1], frontier.projection) == main]
    others = [frontier for frontier in found.frontiers if frontier not in here]
    told = _frontiers(here) if here else ""
    told += folded("Other texts, models, seeds and maps", _frontiers(others)) if others else ""
    return (
        "finding",
        "Finding",
        f"{paragraph(found.answer, 'lead')}{paragraphs(found.notes)}{paragraph(found.rules.to_text(), 'quiet')}{told}",
    )


def _frontiers(frontiers: Sequence[Frontier]) -> str:
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
    return grid([titles[place] for place in kept], [[line[place] for place in kept] for line in lines])


def _from_epsilon(words: str, epsilon: float | None) -> str:
    return "at none tried" if epsilon is None else f"{words} ε = {number_text(epsilon)}"


def _of_tables_and_figures(
    name: str, title: str, names: Sequence[str], figures: Sequence[Drawn], tables: Mapping[str, Table]
) -> _Section:
    """Figures of the largest k, and of none, in the open, those of other k folded away, then the tables."""
    depths = sorted({_depth(one) for one, _ in figures}, reverse=True)
    content = [figure(one, svg) for one, svg in figures if _depth(one) in (*depths[:1], -1)]
    for k in depths[1:]:
        if k != -1:
            content.append(folded(f"The same at k = {k}", *(figure(one, svg) for one, svg in figures if _depth(one) == k)))
    content += [table(tables[one]) for one in names if one in tables]
    return name, title, "".join(content)


def _named(figures: Sequence[Drawn], *beginnings: str) -> list[Drawn]:
    return [(one, svg) for one, svg in figures if one.name.startswith(beginnings)]


def _depth(one: Figure) -> int:
    """The k at the end of a figure's name, -1 where it has none."""
    end = one.name.rpartition("_k")[2]
    return int(end) if end.isdecimal() else -1


def _promises(records: Sequence[Record]) -> _Section:
    lines, whole = [], []
    for record in records:
        row = record.rows[0]
        label = _run_label(row)
        for side, receipt in record.receipts.items():
            shown = [f"{name} {_plain(receipt[name])}" for name in _RECEIPT_FIELDS if receipt.get(name) is not None]
            lines.append((label, side, ", ".join(shown)))
        if record.receipts or record.promises:
            said = json.dumps(dict(record.receipts), indent=2, ensure_ascii=False)
            whole.append(
                folded(label, *(paragraph(promise) for promise in record.promises), code(said) if record.receipts else "")
            )
    if not whole:
        return "receipts", "Promises and receipts", ""
    note = (
        "The noise of a study comes from a seed, so that its figures can be had again. Whoever knows the seed can take the noise "
        "away: these receipts say what was done, and are no claims of differential privacy for the texts of this study."
    )
    told = grid(("run", "noise on", "receipt"), lines) if lines else ""
    return "receipts", "Promises and receipts", paragraph(note) + told + folded("Promises and whole receipts, run by run", *whole)


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


def _plain(value: Any) -> str:
    return number_text(value) if isinstance(value, float) else str(value)


def _configuration(configuration: Configuration) -> _Section:
    lines = [(key, json.dumps(value, ensure_ascii=False).strip('"')) for key, value in _dotted(to_values(configuration))]
    return "configuration", "Configuration", grid(("setting", "value"), lines)


def _dotted(values: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _reading() -> _Section:
    said = (
        "Every figure has an interval of the configured confidence: of recall by resampling documents with all their queries, of "
        "attacks by resampling candidates. ε is of differential privacy, for replacing one document, one query, or, on the score "
        "side, for one query's scores.",
        "Attacks decide who is a member: from what a search answers by a logistic regression on seven features and by a likelihood "
        "ratio, and, where documents have noise, from the released rows themselves. Where one number stands for all, it is the "
        "strongest one's. An attack that fails is no proof; the bound of the claim is one.",
    )
    meanings = grid(("column of results.csv", "meaning"), [(column.name, column.meaning) for column in COLUMNS])
    return "reading", "How to read this", paragraphs(said) + folded("All columns", meanings)


def _style() -> str:
    return resources.files("hushvec_studies.retrieval.report").joinpath("style.css").read_text("utf-8")
