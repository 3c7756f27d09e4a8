"""Tables of a study from its rows: which there are, and the folder of CSV and LaTeX files that they are written to."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hushvec_studies.harness.paired import paired_test
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
_QUERIES_LEFT_OUT = "Noise on queries alone is left out: the asker adds it, and an adversary does not."


def study_tables(rows: Iterable[Mapping[str, Any]], main: Conditions | None = None) -> list[Table]:
    """Every table that the rows are enough for; `main` is what the study is about, as for `points_of`, which needs rows."""
    points = points_of(rows, main)
    made = (_summary, _frontier, _attacks, _best, _differences, _by_depth, _across_queries, _across_maps, _robustness)
    return [table for table in (make(points) for make in made) if table.lines]


def write_each(tables: Iterable[Table], folder: str | os.PathLike[str]) -> list[Path]:
    """Write every table as `csv/NAME.csv` and `latex/NAME.tex`; the files.

    CSV has the numbers in full, an interval as the columns NAME_ci_lower and NAME_ci_upper, and an empty cell for what is not
    known. LaTeX is a `tabular` of booktabs, or a `longtable` where it is longer than a page; its first line says which packages
    it needs.
    """
    written = []
    for table in tables:
        for kind, suffix, write in (("csv", "csv", table.write_csv), ("latex", "tex", table.write_latex)):
            path = Path(folder) / kind / f"{table.name}.{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path)
            written.append(path)
    return written


# ---- columns ----

Column = tuple[Heading, Callable[[Point], Cell]]

_WHERE: tuple[Column, ...] = (
    (Heading("sides", "noise on"), lambda point: point.setting.sides),
    (Heading("noise", "mechanism"), lambda point: point.setting.noise if point.setting.has_noise else "–"),
    (Heading("epsilon", "ε"), lambda point: point.setting.epsilon_text),
)
_K: Column = (Heading("k", "k"), lambda point: point.setting.k)


def _estimate(name: str, title: str) -> Column:
    return Heading(name, title), lambda point: point.estimate(name)


def _value(name: str, title: str, digits: int = 3) -> Column:
    return Heading(name, title, digits), lambda point: point.value(name)


def _strongest(names: Sequence[str], name: str = "attack_auc", title: str = "AUC") -> Column:
    return Heading(name, title), lambda point: point.strongest(names)


def _condition(place: int, name: str, title: str) -> Column:
    return Heading(name, title), lambda point: point.setting.conditions[place]


_CONDITIONS = (
    _condition(0, "dataset_split", "split"),
    _condition(1, "embedding_model", "model"),
    _condition(2, "queries_per_document", "queries"),
    _condition(3, "projection", "public map"),
)


def _table(name: str, title: str, note: str, points: Iterable[Point], columns: Sequence[Column]) -> Table:
    lines = tuple(tuple(cell(point) for _, cell in columns) for point in points)
    return Table(name, title, note, tuple(heading for heading, _ in columns), lines)


# ---- the tables ----

def _summary(points: Sequence[Point]) -> Table:
    found = conditions_of(points)
    varying = [column for place, column in enumerate(_CONDITIONS) if len({conditions[place] for conditions in found}) > 1]
    shown = {
        "recall_at_k": "recall@k",
        "mrr": "MRR",
        "ndcg_at_10": "nDCG@10",
        "mean_cosine": "cosine",
        "mia_auc": "AUC, logistic",
        "lira_auc": "AUC, likelihood",
    }
    seeds: Column = (Heading("seeds", "seeds"), lambda point: len(point.rows))
    return _table(
        "summary",
        "Every setting",
        "One line for each setting and k. Brackets are intervals; over several seeds the figure is their mean and the interval "
        "reaches from the lowest to the highest end of theirs.",
        points,
        (*varying, *_WHERE, _K, seeds, *(_estimate(name, title) for name, title in shown.items())),
    )


def _protecting(points: Sequence[Point]) -> list[Point]:
    """Points of the main conditions in which whoever holds the documents has put the noise, and the one without noise."""
    main = main_conditions(points)
    return [point for point in points if point.setting.conditions == main and point.setting.sides != "query"]


def _frontier(points: Sequence[Point]) -> Table:
    best: list[Point] = []
    for k in depths_of(points):
        here = [point for point in _protecting(points) if point.setting.k == k]
        best += undominated(here, lambda point: point.value("recall_at_k"), _strongest_auc)
    return _table(
        "frontier",
        "Settings that no other beats",
        "For each k, the settings for which no other has as much recall and as weak an attack; the attack is the strongest one. "
        "By figures alone: neighbours whose intervals overlap may change places in another draw. " + _QUERIES_LEFT_OUT,
        best,
        (_K, *_WHERE, _estimate("recall_at_k", "recall@k"), _strongest(AUC, title="attack AUC")),
    )


def _attacks(points: Sequence[Point]) -> Table:
    here = (main_conditions(points), k := depths_of(points)[-1])
    shown = [point for point in points if (point.setting.conditions, point.setting.k) == here and point.strongest(AUC)]
    return _table(
        "attacks",
        f"The strongest attack beside what the claim allows, k = {k}",
        "A bound is the most that any attack can reach if the claim (claimed ε and its δ) holds. Proven ε is what each attack shows "
        "at least; a mechanism is exposed if that is more than the claim.",
        shown,
        (
            *_WHERE,
            _value("epsilon_claimed", "claimed ε", 2),
            _strongest(AUC),
            _value("auc_bound", "bound"),
            _strongest(TPR[0.01], "attack_tpr_0.01_fpr", "TPR at 1 % FPR"),
            _value("tpr_0.01_fpr_bound", "bound"),
            _strongest(TPR[0.001], "attack_tpr_0.001_fpr", "TPR at 0.1 % FPR"),
            _value("tpr_0.001_fpr_bound", "bound"),
            _value("epsilon_lower", "proven ε, logistic", 2),
            _value("lira_epsilon_lower", "proven ε, likelihood", 2),
            _value("released_epsilon_lower", "proven ε, rows", 2),
            (Heading("exposed", "exposed"), lambda point: "yes" if any(row.get("exposed") for row in point.rows) else "no"),
        ),
    )


def _best(points: Sequence[Point]) -> Table:
    lines: list[tuple[Cell, ...]] = []
    tests: tuple[tuple[str, Callable[[Point], float | None]], ...] = (
        ("measured", lambda point: point.worst(TPR[_TARGET_RATE])),
        ("proven", lambda point: point.value("tpr_0.01_fpr_bound")),
    )
    for k in depths_of(points):
        here = [point for point in _protecting(points) if point.setting.k == k and point.value("recall_at_k") is not None]
        for target in TARGETS:
            for how, harm in tests:
                able = [point for point in here if (found := harm(point)) is not None and found <= target]
                best = max(able, key=lambda point: point.value("recall_at_k") or 0.0, default=None)
                where = ("–",) * 3 if best is None else tuple(cell(best) for _, cell in _WHERE)
                shown = (None, None) if best is None else (best.estimate("recall_at_k"), harm(best))
                lines.append((k, target, how, *where, *shown))
    return Table(
        "best_settings",
        "The most useful setting for each privacy target",
        "Target: the true positive rate at 1 % false positives must not exceed it. Measured: the upper ends of the intervals of both "
        "attacks stay under it. Proven: the bound of the claim does, so that no other attack can do better. " + _QUERIES_LEFT_OUT,
        (
            Heading("k", "k"),
            Heading("target_tpr", "target TPR", 2),
            Heading("how", "held by"),
            *(heading for heading, _ in _WHERE),
            Heading("recall_at_k", "recall@k"),
            Heading("tpr_upper", "TPR at most"),
        ),
        tuple(lines) if any(line[3] != "–" for line in lines) else (),
    )


def _strongest_auc(point: Point) -> float | None:
    estimate = point.strongest(AUC)
    return None if estimate is None else estimate.value


# ---- comparisons of runs ----

def _differences(points: Sequence[Point]) -> Table:
    # recall_at_1 is the same in all rows of a run: one line for each run
    measured = [point for point in points if point.estimate("recall_at_1_difference") is not None]
    runs = [next(iter(run.values())) for run in _by_run(measured, main_conditions(points))]
    values = {id(point): max((row[_P] for row in point.rows if row[_P] is not None), default=None) for point in runs}
    adjusted = dict(zip(values, holm(list(values.values()))))
    return _table(
        "statistical_analysis",
        "Recall@1 against the same search without noise",
        "Paired by query. p is of the hypothesis that there is no difference; the next column is p after Holm's correction for all "
        "lines. d is Cohen's d of the paired differences. Over several seeds p is the largest and d the mean.",
        runs,
        (
            *_WHERE,
            _estimate("recall_at_1", "recall@1"),
            _estimate("recall_at_1_difference", "difference"),
            (Heading("p_value", "p", 4), lambda point: values[id(point)]),
            (Heading("p_value_holm", "p, Holm", 4), lambda point: adjusted[id(point)]),
            (Heading("cohens_d", "d", 2), lambda point: point.value("recall_at_1_cohens_d")),
        ),
    )


_P = "recall_at_1_p_value"


def _by_depth(points: Sequence[Point]) -> Table:
    depths = depths_of(points)
    lines = [
        (
            *(cell(next(iter(run.values()))) for _, cell in _WHERE),
            *(run[k].estimate("recall_at_k") if k in run else None for k in depths),
            *(run[k].strongest(AUC) if k in run else None for k in depths),
        )
        for run in _by_run(points, main_conditions(points))
    ]
    return Table(
        "ablation_k",
        "How many documents a search answers with",
        "Recall and the strongest attack's AUC, at each k.",
        (
            *(heading for heading, _ in _WHERE),
            *(Heading(f"recall_at_{k}", f"recall@{k}") for k in depths),
            *(Heading(f"attack_auc_k{k}", f"AUC, k = {k}") for k in depths),
        ),
        tuple(lines) if len(depths) > 1 else (),
    )


def _across(points: Sequence[Point], place: int, name: str, title: str) -> Table:
    """Settings of the main conditions beside those that differ from it in one thing."""
    k = depths_of(points)[-1]
    kept = [point for point in _beside(conditions_differing_in(points, place)) if point.setting.k == k]
    return _table(
        name,
        f"{title}, k = {k}",
        "Everything else as in the other tables. AUC is that of the strongest attack.",
        kept,
        (*_WHERE, _CONDITIONS[place], _estimate("recall_at_k", f"recall@{k}"), _estimate("mrr", "MRR"), _strongest(AUC)),
    )


_across_queries = partial(_across, place=2, name="ablation_queries", title="Key phrases for each document")
_across_maps = partial(_across, place=3, name="ablation_projection", title="A public map before the noise")


def _beside(points: Sequence[Point]) -> list[Point]:
    """Points of one side, noise and epsilon after each other."""
    order = {setting: number for number, setting in enumerate(dict.fromkeys(point.setting[1:4] for point in points))}
    return sorted(points, key=lambda point: order[point.setting[1:4]])


def _robustness(points: Sequence[Point]) -> Table:
    k, main = depths_of(points)[-1], main_conditions(points)
    found = [conditions for conditions in conditions_of(points) if conditions[2:] == main[2:]]
    kept = [point for point in points if point.setting.conditions in found and point.setting.k == k]
    several = len(found) > 1 or any(len(point.rows) > 1 for point in kept)
    seed: Column = (Heading("seed", "seed"), lambda point: point.rows[0]["seed"])
    return _table(
        "robustness",
        f"Other splits, models and seeds, k = {k}",
        "One line for each run.",
        [Point(point.setting, (row,)) for point in _beside(kept) for row in point.rows] if several else (),
        (*_WHERE, *_CONDITIONS[:2], seed, _estimate("recall_at_k", f"recall@{k}"), _strongest(AUC)),
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
    runs: dict[tuple[Any, ...], dict[int, Point]] = {}
    for point in points:
        if point.setting.conditions == conditions:
            runs.setdefault(point.setting[:4], {})[point.setting.k] = point
    return list(runs.values())


# ---- mechanism against mechanism ----

def mechanism_pairs(records: Sequence[Record], main: Conditions | None, statistics: Statistics, seed: int) -> Table:
    """Every pair of mechanisms at every epsilon that both ran at, by recall at the largest k that both have.

    Only runs of one seed and of the main conditions are paired, so that both were asked the same queries. Queries for one
    document are resampled, and change sign, together. Records without ranks, which older versions wrote, are left out.
    """
    here = main_conditions(points_of((row for record in records for row in record.rows), main))
    lines = [_line(one, other, statistics, seed) for one, other in _pairs(records, here)]
    adjusted = holm([line[-2] if isinstance(line[-2], float) else None for line in lines])
    return Table(
        "mechanisms",
        "Mechanism against mechanism",
        "Paired by query, at one epsilon of each side with noise. Recall is the share of queries that one of the first k documents "
        "answers; the difference is that of the first less that of the second. "
        "p is of the sign-flip test that there is none, 9,999 draws; the next column is p after Holm's correction for all lines. d "
        "is Cohen's d of the paired differences. Queries are resampled, noise is not: each mechanism is one draw of it.",
        (
            *(Heading(name, title) for name, title in (("first", "first"), ("second", "second"), ("epsilon", "ε"), ("seed", "seed"))),
            *(Heading("k", "k"), Heading("recall_first", "recall, first"), Heading("recall_second", "recall, second")),
            *(Heading("difference", "difference"), Heading("p_value", "p", 4)),
            *(Heading("p_value_holm", "p, Holm", 4), Heading("cohens_d", "d", 2)),
        ),
        tuple((*line[:-1], p, line[-1]) for line, p in zip(lines, adjusted)),
    )


class _Run(NamedTuple):
    """A run with noise that can be paired."""

    record: Record
    setting: Setting
    ks: frozenset[int]
    seed: int

    @property
    def name(self) -> str:
        return f"{self.setting.sides}, {self.setting.noise}"


def _pairs(records: Iterable[Record], main: Conditions) -> Iterator[tuple[_Run, _Run]]:
    """Runs of the main conditions that can be compared, from the largest epsilon down."""
    runs = []
    for record in records:
        settings = [point.setting for point in points_of(record.rows)]
        if record.ranks and settings[0].has_noise and settings[0].conditions == main:
            runs.append(_Run(record, settings[0], frozenset(one.k for one in settings), int(record.rows[0]["seed"])))

    def place(run: _Run) -> tuple[int, float, str]:
        return run.seed, -run.setting.epsilon, run.setting.epsilon_text

    for _, group in groupby(sorted(runs, key=place), place):
        for one, other in combinations(group, 2):
            if one.ks & other.ks and one.name != other.name and one.record.queries_of == other.record.queries_of:
                yield one, other


def _line(one: _Run, other: _Run, statistics: Statistics, seed: int) -> tuple[Cell, ...]:
    k = max(one.ks & other.ks)
    ranks = [np.asarray(run.record.ranks) for run in (one, other)]
    # 1 for every query that one of the first k documents answers
    first, second = (((own > 0) & (own <= k)).astype(np.float64) for own in ranks)
    counts = np.asarray(one.record.queries_of)
    groups = np.repeat(np.arange(len(counts)), counts)
    test = paired_test(first, second, groups=groups, **statistics.model_dump(), seed=seed, limits=(-1.0, 1.0))
    difference = Estimate(test.difference.value, test.difference.low, test.difference.high)
    effect = None if math.isnan(test.cohens_d) else test.cohens_d
    shares = float(first.mean()), float(second.mean())
    return (one.name, other.name, one.setting.epsilon_text, one.seed, k, *shares, difference, test.p_value, effect)
