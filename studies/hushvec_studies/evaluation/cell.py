"""What every measurement of the evaluation has: a task, a mechanism at an epsilon, and a row of the same columns."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hushvec
from hushvec.audit.bootstrap import bootstrap
from hushvec_studies.evaluation.attacks.recognition import attack_interval, bounds
from hushvec_studies.evaluation.vectors import Hashed
from hushvec_studies.harness.measurements import Measure, Measurement, noise_seed

VERSION = 2  # of what a measurement does: another one makes kept measurements again


@dataclass(frozen=True, kw_only=True)
class Cell(Measurement):
    """One measurement.

    Args:
        task: what is released for which use, as the page names it.
        side: of the task that is released.
        data: vectors.
        mechanism: a name of `contenders`, or one of the task's own.
        epsilon: of one row; None without noise.
        delta: of Gaussian noise.
        draws: releases of each row, or splits into public and private halves.
        seed: of noise, codebooks and resampling.
        confidence, resamples: of intervals.
    """

    task: str
    side: str
    data: Hashed
    mechanism: str
    epsilon: float | None
    delta: float
    draws: int
    seed: int
    confidence: float
    resamples: int

    @property
    def key(self) -> Mapping[str, Any]:
        own = {name: value for name, value in vars(self).items() if name != "data"}
        return {"version": VERSION, "hushvec": hushvec.__version__, "data": self.data.digest, **own}

    @property
    def label(self) -> str:
        return f"{self.task}, {self.mechanism}" + ("" if self.epsilon is None else f", epsilon {self.epsilon:g}")

    @property
    def noise_seed(self) -> int:
        return noise_seed(self.digest)


def row_of(
    cell: Cell,
    runs: Sequence[Mapping[str, NDArray[np.float64]]],
    groups: Sequence[NDArray[np.int64]],
    hits: Sequence[NDArray[np.bool_]],
    delta: float,
    chosen: Sequence[int | None],
) -> dict[str, Any]:
    """The row of a measurement.

    Args:
        cell: what was measured.
        runs: for each draw, each measure of each query.
        groups: for each draw, the number of each query: one that is in several draws is resampled with all of them.
        hits: for each draw, whether each released row was recognized.
        delta: that the mechanism really has.
        chosen: components or codes of each draw.
    """
    columns = {name: np.concatenate([run[name] for run in runs]) for name in runs[0]}
    estimates = bootstrap(
        columns,
        groups=np.concatenate(groups),
        confidence=cell.confidence,
        resamples=cell.resamples,
        seed=cell.seed,
        limits=(0.0, 1.0),
    )
    attacked = attack_interval(np.concatenate(hits), cell.confidence)
    candidates = len(hits[0])
    counts = [one for one in chosen if one is not None]
    return {
        "task": cell.task,
        "mechanism": cell.mechanism,
        "epsilon": cell.epsilon,
        "delta": None if cell.epsilon is None else delta,
        "chosen": counts,
        "queries": len(np.unique(np.concatenate(groups))),
        "draws": len(runs),
        "released": int(sum(map(len, hits))),
        "candidates": candidates,
        **{name: [one.value, one.low, one.high] for name, one in estimates.items()},
        "attack": [attacked.value, attacked.low, attacked.high],
        **bounds(cell.epsilon, delta, candidates),
    }


def timed(measure: Measure, cell: Cell) -> dict[str, Any]:
    """The row of a cell, and the seconds of processor time that it took."""
    begin = time.process_time()
    row = measure(cell)
    return {**row, "seconds": round(time.process_time() - begin, 1)}
