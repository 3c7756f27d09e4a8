"""Tables of a study from its rows: which there are, and the folder of CSV and LaTeX files that they are written to."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hushvec_studies.harness.tables import Cell, Heading, Table
from hushvec_studies.retrieval.comparisons import (
    WHERE,
    by_depth,
    differences,
    performance,
    projections,
    queries,
    robustness,
    where,
)
from hushvec_studies.retrieval.points import (
    AUC,
    TPR,
    Conditions,
    Point,
    conditions_of,
    depths_of,
    main_conditions,
    points_of,
    undominated,
)

# TPR at 1 % FPR that a setting may have at most: chance is 0.01.
TARGETS = (0.02, 0.05, 0.10, 0.20)
_TARGET_RATE = 0.01


def study_tables(rows: Iterable[Mapping[str, Any]], main: Conditions | None = None) -> list[Table]:
    """Every table that the rows are enough for.

    Args:
        rows: of `hushvec_studies.retrieval.columns`.
        main: what the study is about, for the tables that are about one set of conditions; None: as `points_of` finds out.

    Raises:
        ValueError: no rows.
    """
    points = points_of(rows, main)
    made = (_summary, _frontier, _attacks, _best, differences, by_depth, queries, projections, robustness, performance)
    return [table for table in (make(points) for make in made) if table.lines]


def write_tables(rows: Iterable[Mapping[str, Any]], folder: str | os.PathLike[str], main: Conditions | None = None) -> list[Path]:
    """Write every table as `csv/NAME.csv` and `latex/NAME.tex`.

    Args:
        rows: of `hushvec_studies.retrieval.columns`.
        folder: made if it is not there.
        main: as in `study_tables`.

    Returns:
        The files.

    Raises:
        ValueError: no rows.
        OSError: the folder cannot be written.

    Guarantees:
        CSV has the numbers in full, an interval as the columns NAME_ci_lower and NAME_ci_upper, and an empty cell for what is not
        known. LaTeX is a `tabular` of booktabs, or a `longtable` where it is longer than a page; its first line says which packages
        it needs.
    """
    return write_each(study_tables(rows, main), folder)


def write_each(tables: Iterable[Table], folder: str | os.PathLike[str]) -> list[Path]:
    """Write tables as `write_tables` does."""
    written = []
    for table in tables:
        for kind, suffix, write in (("csv", "csv", table.write_csv), ("latex", "tex", table.write_latex)):
            path = Path(folder) / kind / f"{table.name}.{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path)
            written.append(path)
    return written


# ---- the tables ----


def _summary(points: Sequence[Point]) -> Table:
    shown = [
        Heading("recall_at_k", "recall@k"),
        Heading("mrr", "MRR"),
        Heading("ndcg_at_10", "nDCG@10"),
        Heading("mean_cosine", "cosine"),
        Heading("mia_auc", "AUC, logistic"),
        Heading("lira_auc", "AUC, likelihood"),
    ]
    found_conditions = conditions_of(points)
    varying = [
        (heading, place)
        for heading, place in _CONDITION_HEADINGS
        if len({conditions[place] for conditions in found_conditions}) > 1
    ]
    lines = [
        (
            *(point.setting.conditions[place] for _, place in varying),
            *where(point),
            point.setting.k,
            len(point.rows),
            *(point.estimate(heading.name) for heading in shown),
        )
        for point in points
    ]
    return Table(
        "summary",
        "Every setting",
        "One line for each setting and k. Brackets are intervals; over several seeds the figure is their mean and the interval "
        "reaches from the lowest to the highest end of theirs.",
        (*(heading for heading, _ in varying), *WHERE, Heading("k", "k"), Heading("seeds", "seeds"), *shown),
        tuple(lines),
    )


_CONDITION_HEADINGS = (
    (Heading("dataset_split", "split"), 0),
    (Heading("embedding_model", "model"), 1),
    (Heading("queries_per_document", "queries"), 2),
    (Heading("projection", "public map"), 3),
)


_QUERIES_LEFT_OUT = "Noise on queries alone is left out: the asker adds it, and an adversary does not."


def _protecting(points: Sequence[Point], conditions: Conditions) -> list[Point]:
    """Points of these conditions in which whoever holds the documents has put the noise, and the one without noise."""
    return [point for point in points if point.setting.conditions == conditions and point.setting.sides != "query"]


def _frontier(points: Sequence[Point]) -> Table:
    lines: list[tuple[Cell, ...]] = []
    conditions = main_conditions(points)
    for k in depths_of(points):
        here = [point for point in _protecting(points, conditions) if point.setting.k == k]
        best = undominated(here, lambda point: point.value("recall_at_k"), _strongest_auc)
        lines += [(k, *where(point), point.estimate("recall_at_k"), point.strongest(AUC)) for point in best]
    return Table(
        "frontier",
        "Settings that no other beats",
        "For each k, the settings for which no other has as much recall and as weak an attack; the attack is the strongest one. "
        "By figures alone: neighbours whose intervals overlap may change places in another draw. " + _QUERIES_LEFT_OUT,
        (Heading("k", "k"), *WHERE, Heading("recall_at_k", "recall@k"), Heading("attack_auc", "attack AUC")),
        tuple(lines),
    )


def _attacks(points: Sequence[Point]) -> Table:
    conditions, k = main_conditions(points), depths_of(points)[-1]
    lines = [
        (
            *where(point),
            point.value("epsilon_claimed"),
            point.strongest(AUC),
            point.value("auc_bound"),
            point.strongest(TPR[0.01]),
            point.value("tpr_0.01_fpr_bound"),
            point.strongest(TPR[0.001]),
            point.value("tpr_0.001_fpr_bound"),
            point.value("epsilon_lower"),
            point.value("lira_epsilon_lower"),
            point.value("released_epsilon_lower"),
            _yes(any(row.get("exposed") for row in point.rows)),
        )
        for point in points
        if point.setting.conditions == conditions and point.setting.k == k and point.strongest(AUC) is not None
    ]
    return Table(
        "attacks",
        f"The strongest attack beside what the claim allows, k = {k}",
        "A bound is the most that any attack can reach if the claim (claimed ε and its δ) holds. Proven ε is what each attack shows "
        "at least; a mechanism is exposed if that is more than the claim.",
        (
            *WHERE,
            Heading("epsilon_claimed", "claimed ε", 2),
            Heading("attack_auc", "AUC"),
            Heading("auc_bound", "bound"),
            Heading("attack_tpr_0.01_fpr", "TPR at 1 % FPR"),
            Heading("tpr_0.01_fpr_bound", "bound"),
            Heading("attack_tpr_0.001_fpr", "TPR at 0.1 % FPR"),
            Heading("tpr_0.001_fpr_bound", "bound"),
            Heading("epsilon_lower", "proven ε, logistic", 2),
            Heading("lira_epsilon_lower", "proven ε, likelihood", 2),
            Heading("released_epsilon_lower", "proven ε, rows", 2),
            Heading("exposed", "exposed"),
        ),
        tuple(lines),
    )


def _best(points: Sequence[Point]) -> Table:
    conditions = main_conditions(points)
    lines: list[tuple[Cell, ...]] = []
    tests: tuple[tuple[str, Callable[[Point], float | None]], ...] = (
        ("measured", lambda point: point.worst(TPR[_TARGET_RATE])),
        ("proven", lambda point: point.value("tpr_0.01_fpr_bound")),
    )
    for k in depths_of(points):
        here = [point for point in _protecting(points, conditions) if point.setting.k == k]
        for target in TARGETS:
            for how, harm in tests:
                able = [point for point in here if _at_most(harm(point), target) and point.value("recall_at_k") is not None]
                best = max(able, key=lambda point: point.value("recall_at_k") or 0.0, default=None)
                if best is None:
                    lines.append((k, target, how, "–", "–", "–", None, None))
                else:
                    lines.append((k, target, how, *where(best), best.estimate("recall_at_k"), harm(best)))
    return Table(
        "best_settings",
        "The most useful setting for each privacy target",
        "Target: the true positive rate at 1 % false positives must not exceed it. Measured: the upper ends of the intervals of both "
        "attacks stay under it. Proven: the bound of the claim does, so that no other attack can do better. " + _QUERIES_LEFT_OUT,
        (
            Heading("k", "k"),
            Heading("target_tpr", "target TPR", 2),
            Heading("how", "held by"),
            *WHERE,
            Heading("recall_at_k", "recall@k"),
            Heading("tpr_upper", "TPR at most"),
        ),
        tuple(lines) if any(line[3] != "–" for line in lines) else (),
    )


def _strongest_auc(point: Point) -> float | None:
    estimate = point.strongest(AUC)
    return None if estimate is None else estimate.value


def _at_most(value: float | None, limit: float) -> bool:
    return value is not None and value <= limit


def _yes(value: bool) -> str:
    return "yes" if value else "no"
