"""Tables of a study from its rows: which there are, and the folder of CSV and LaTeX files that they are written to."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec.retrieval.evaluation import PairedTest, paired_test
from hushvec_studies.harness.tables import Cell, Estimate, Heading, Table
from hushvec_studies.retrieval.configuration import Statistics
from hushvec_studies.retrieval.points import (
    AUC,
    TPR,
    Conditions,
    Point,
    Setting,
    conditions_differing_in,
    conditions_of,
    depths_of,
    main_conditions,
    points_of,
    undominated,
)
from hushvec_studies.retrieval.records import Record

# TPR at 1 % FPR that a setting may have at most: chance is 0.01.
TARGETS = (0.02, 0.05, 0.10, 0.20)
_TARGET_RATE = 0.01


def study_tables(rows: Iterable[Mapping[str, Any]], main: Conditions | None = None) -> list[Table]:
    """Every table that the rows are enough for; `main` is what the study is about, as for `points_of`, which needs rows."""
    points = points_of(rows, main)
    made = (_summary, _frontier, _attacks, _best, differences, by_depth, queries, projections, robustness, performance)
    return [table for table in (make(points) for make in made) if table.lines]


def write_tables(rows: Iterable[Mapping[str, Any]], folder: str | os.PathLike[str], main: Conditions | None = None) -> list[Path]:
    """Write every table as `csv/NAME.csv` and `latex/NAME.tex`; the files.

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


# ---- comparisons of runs ----


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


# ---- mechanism against mechanism ----


_SHARES = (-1.0, 1.0)


def mechanism_pairs(records: Sequence[Record], main: Conditions | None, statistics: Statistics, seed: int) -> Table:
    """Every pair of mechanisms at every epsilon that both ran at, by recall at the largest k that both have.

    Only runs of one seed and of the main conditions are paired, so that both were asked the same queries. Queries for one
    document are resampled, and change sign, together. Records without ranks, which older versions wrote, are left out.
    """
    here = main_conditions(points_of((row for record in records for row in record.rows), main))
    lines = [_line(one, other, statistics, seed) for one, other in _pairs(_runs(records, here))]
    adjusted = holm([line[-2] if isinstance(line[-2], float) else None for line in lines])
    return Table(
        "mechanisms",
        "Mechanism against mechanism",
        "Paired by query, at one epsilon of each side with noise. Recall is the share of queries that one of the first k documents "
        "answers; the difference is that of the first less that of the second. "
        "p is of the sign-flip test that there is none, 9,999 draws; the next column is p after Holm's correction for all lines. d "
        "is Cohen's d of the paired differences. Queries are resampled, noise is not: each mechanism is one draw of it.",
        (
            Heading("first", "first"),
            Heading("second", "second"),
            Heading("epsilon", "ε"),
            Heading("seed", "seed"),
            Heading("k", "k"),
            Heading("recall_first", "recall, first"),
            Heading("recall_second", "recall, second"),
            Heading("difference", "difference"),
            Heading("p_value", "p", 4),
            Heading("p_value_holm", "p, Holm", 4),
            Heading("cohens_d", "d", 2),
        ),
        tuple((*line[:-1], p, line[-1]) for line, p in zip(lines, adjusted)),
    )


class _Run:
    """A run with noise that can be paired."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.settings: list[Setting] = [point.setting for point in points_of(record.rows)]
        self.setting = self.settings[0]
        self.seed = int(record.rows[0]["seed"])

    @property
    def name(self) -> str:
        return f"{self.setting.sides}, {self.setting.noise}"

    @property
    def ks(self) -> set[int]:
        return {setting.k for setting in self.settings}

    def found_within(self, k: int) -> NDArray[np.float64]:
        """1 for every query that one of the first k documents answers."""
        ranks = np.asarray(self.record.ranks)
        return ((ranks > 0) & (ranks <= k)).astype(np.float64)


def _runs(records: Iterable[Record], main: Conditions) -> Iterator[_Run]:
    for record in records:
        run = _Run(record) if record.ranks else None
        if run is not None and run.setting.has_noise and run.setting.conditions == main:
            yield run


def _pairs(runs: Iterable[_Run]) -> Iterator[tuple[_Run, _Run]]:
    """From the largest epsilon down."""

    def place(run: _Run) -> tuple[int, float, str]:
        return run.seed, -run.setting.epsilon, run.setting.epsilon_text

    for _, group in groupby(sorted(runs, key=place), place):
        for one, other in combinations(group, 2):
            if one.ks & other.ks and one.name != other.name and one.record.queries_of == other.record.queries_of:
                yield one, other


def _line(one: _Run, other: _Run, statistics: Statistics, seed: int) -> tuple[Cell, ...]:
    k = max(one.ks & other.ks)
    first, second = one.found_within(k), other.found_within(k)
    counts = np.asarray(one.record.queries_of)
    test: PairedTest = paired_test(
        first,
        second,
        groups=np.repeat(np.arange(len(counts)), counts),
        confidence=statistics.confidence,
        resamples=statistics.resamples,
        seed=seed,
        limits=_SHARES,
    )
    difference = Estimate(test.difference.value, test.difference.low, test.difference.high)
    effect = None if math.isnan(test.cohens_d) else test.cohens_d
    return (
        one.name,
        other.name,
        one.setting.epsilon_text,
        one.seed,
        k,
        float(first.mean()),
        float(second.mean()),
        difference,
        test.p_value,
        effect,
    )
