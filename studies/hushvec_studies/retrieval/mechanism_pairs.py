"""Mechanism against mechanism: of every two that ran at one epsilon, which finds more, paired by query."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, groupby

import numpy as np
from numpy.typing import NDArray

from hushvec.retrieval.evaluation import PairedTest, paired_test
from hushvec_studies.harness.tables import Cell, Estimate, Heading, Table
from hushvec_studies.retrieval.comparisons import holm
from hushvec_studies.retrieval.points import Conditions, Setting, main_conditions, points_of
from hushvec_studies.retrieval.records import Record
from hushvec_studies.retrieval.schema import Statistics

_SHARES = (-1.0, 1.0)


def mechanism_pairs(records: Sequence[Record], main: Conditions | None, statistics: Statistics, seed: int) -> Table:
    """Every pair of mechanisms at every epsilon that both ran at, by recall at the largest k that both have.

    Args:
        records: of the runs of a study; those without ranks, which older versions wrote, are left out.
        main: the conditions that the study is about, as for `study_tables`; runs under other conditions are left out.
        statistics: confidence and resamples of the intervals.
        seed: of resampling and of signs.

    Returns:
        The table "mechanisms"; without lines where no two runs can be compared.

    Guarantees:
        Only runs of one seed are paired, so that both were asked the same queries. Queries for one document are resampled, and
        change sign, together.
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
