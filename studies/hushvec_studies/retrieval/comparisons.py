"""Tables that compare runs: with the one without noise, by k, by queries and maps, on other texts and seeds, and their times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hushvec_studies.harness.tables import Cell, Heading, Table
from hushvec_studies.retrieval.points import (
    AUC,
    Conditions,
    Point,
    conditions_differing_in,
    conditions_of,
    depths_of,
    main_conditions,
)

WHERE = (Heading("sides", "noise on"), Heading("noise", "mechanism"), Heading("epsilon", "ε"))


def where(point: Point) -> tuple[Cell, ...]:
    setting = point.setting
    return (setting.sides, setting.noise if setting.has_noise else "–", setting.epsilon_text)


def differences(points: Sequence[Point]) -> Table:
    conditions = main_conditions(points)
    # recall_at_1 is the same in all rows of a run: one line for each run
    measured = [point for point in points if point.estimate("recall_at_1_difference") is not None]
    runs = [next(iter(run.values())) for run in _by_run(measured, conditions)]
    values = [_largest(point, "recall_at_1_p_value") for point in runs]
    lines = [
        (
            *where(point),
            point.estimate("recall_at_1"),
            point.estimate("recall_at_1_difference"),
            p,
            adjusted,
            point.value("recall_at_1_cohens_d"),
        )
        for point, p, adjusted in zip(runs, values, holm(values))
    ]
    return Table(
        "statistical_analysis",
        "Recall@1 against the same search without noise",
        "Paired by query. p is of the hypothesis that there is no difference; the next column is p after Holm's correction for all "
        "lines. d is Cohen's d of the paired differences. Over several seeds p is the largest and d the mean.",
        (
            *WHERE,
            Heading("recall_at_1", "recall@1"),
            Heading("recall_at_1_difference", "difference"),
            Heading("p_value", "p", 4),
            Heading("p_value_holm", "p, Holm", 4),
            Heading("cohens_d", "d", 2),
        ),
        tuple(lines),
    )


def by_depth(points: Sequence[Point]) -> Table:
    conditions, depths = main_conditions(points), depths_of(points)
    by_run = _by_run(points, conditions)
    lines = [
        (
            *where(next(iter(run.values()))),
            *(run[k].estimate("recall_at_k") if k in run else None for k in depths),
            *(run[k].strongest(AUC) if k in run else None for k in depths),
        )
        for run in by_run
    ]
    return Table(
        "ablation_k",
        "How many documents a search answers with",
        "Recall and the strongest attack's AUC, at each k.",
        (
            *WHERE,
            *(Heading(f"recall_at_{k}", f"recall@{k}") for k in depths),
            *(Heading(f"attack_auc_k{k}", f"AUC, k = {k}") for k in depths),
        ),
        tuple(lines) if len(depths) > 1 else (),
    )


def queries(points: Sequence[Point]) -> Table:
    return _across(points, 2, "ablation_queries", "Key phrases for each document", "queries_per_document", "queries")


def projections(points: Sequence[Point]) -> Table:
    return _across(points, 3, "ablation_projection", "A public map before the noise", "projection", "public map")


def _across(points: Sequence[Point], place: int, name: str, title: str, column: str, heading: str) -> Table:
    """Settings of the main conditions beside those of found_conditions that differ from it in one thing."""
    k = depths_of(points)[-1]
    kept = conditions_differing_in(points, place)
    settings = list(dict.fromkeys(point.setting[1:4] for point in kept))
    lines = [
        (
            *where(point),
            point.setting.conditions[place],
            point.estimate("recall_at_k"),
            point.estimate("mrr"),
            point.strongest(AUC),
        )
        for setting in settings
        for point in kept
        if point.setting[1:4] == setting and point.setting.k == k
    ]
    return Table(
        name,
        f"{title}, k = {k}",
        "Everything else as in the other tables. AUC is that of the strongest attack.",
        (
            *WHERE,
            Heading(column, heading),
            Heading("recall_at_k", f"recall@{k}"),
            Heading("mrr", "MRR"),
            Heading("attack_auc", "AUC"),
        ),
        tuple(lines),
    )


def robustness(points: Sequence[Point]) -> Table:
    k = depths_of(points)[-1]
    main = main_conditions(points)
    found_conditions = [conditions for conditions in conditions_of(points) if conditions[2:] == main[2:]]
    kept = [point for point in points if point.setting.conditions in found_conditions and point.setting.k == k]
    several = len(found_conditions) > 1 or any(len(point.rows) > 1 for point in kept)
    lines: list[tuple[Cell, ...]] = []
    for setting in dict.fromkeys(point.setting[1:4] for point in kept):
        for point in kept:
            if point.setting[1:4] == setting:
                for row in point.rows:
                    alone = Point(point.setting, (row,))
                    lines.append(
                        (
                            *where(point),
                            point.setting.conditions.split,
                            point.setting.conditions.model,
                            row["seed"],
                            alone.estimate("recall_at_k"),
                            alone.strongest(AUC),
                        )
                    )
    return Table(
        "robustness",
        f"Other splits, models and seeds, k = {k}",
        "One line for each run.",
        (
            *WHERE,
            Heading("dataset_split", "split"),
            Heading("embedding_model", "model"),
            Heading("seed", "seed"),
            Heading("recall_at_k", f"recall@{k}"),
            Heading("attack_auc", "AUC"),
        ),
        tuple(lines) if several else (),
    )


def performance(points: Sequence[Point]) -> Table:
    runs = [next(iter(run.values())) for run in _by_run(points, main_conditions(points))]
    shown = (
        Heading("latency_mean_ms", "mean, ms"),
        Heading("latency_std_ms", "deviation, ms"),
        Heading("latency_p99_ms", "p99, ms"),
        Heading("index_build_time_s", "index, s"),
        Heading("peak_memory_gb", "memory, GB", 2),
        Heading("run_seconds", "run, s", 1),
    )
    lines = [(*where(point), *(point.value(heading.name) for heading in shown)) for point in runs]
    measured = any(cell is not None for line in lines for cell in line[3:])
    return Table(
        "performance",
        "Time and memory",
        "Latency of one query searched alone. Index: noise on the documents and building. Memory: the process's largest so far. Of "
        "the machine that the study ran on, shared by the study's worker processes.",
        (*WHERE, *shown),
        tuple(lines) if measured else (),
    )


def holm(values: Sequence[float | None]) -> list[float | None]:
    """p-values corrected for their number (Holm 1979); None stays None.

    Example:
        >>> holm([0.01, 0.5, None, 0.02])
        [0.03, 0.5, None, 0.04]
    """
    order = sorted((value, place) for place, value in enumerate(values) if value is not None)
    corrected: list[float | None] = [None] * len(values)
    largest = 0.0
    for rank, (value, place) in enumerate(order):
        largest = max(largest, min(1.0, value * (len(order) - rank)))
        corrected[place] = largest
    return corrected


def _by_run(points: Sequence[Point], conditions: Conditions) -> list[dict[int, Point]]:
    """The points of each run by k."""
    runs: dict[tuple[Any, ...], dict[int, Point]] = {}
    for point in points:
        if point.setting.conditions == conditions:
            runs.setdefault(point.setting[:4], {})[point.setting.k] = point
    return list(runs.values())


def _largest(point: Point, name: str) -> float | None:
    return max((row[name] for row in point.rows if row[name] is not None), default=None)
