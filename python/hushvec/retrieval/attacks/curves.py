"""ROC curves, and intervals for their area and left end. Equal scores stand or fall together; nothing is interpolated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushvec._util.statistics import Estimate, clopper_pearson
from hushvec.audit.bootstrap import all_alike, counted, percentiles

Scores = NDArray[np.float64]
Counts = NDArray[np.int64]

# A block of resamples holds about this many counts, 8 MB of each kind.
_BLOCK_COUNTS = 1 << 20
_SLACK = 1e-9


@dataclass(frozen=True)
class RocCurve:
    """Members and others at each distinct score, from the highest score down."""

    thresholds: Scores  # distinct scores, descending
    members: Counts  # how many members have each of them
    others: Counts  # how many others

    @classmethod
    def of(cls, members: Scores, others: Scores) -> RocCurve:
        """The curve of two sets of scores, each of at least one."""
        if len(members) == 0 or len(others) == 0:
            raise ValueError(f"scores must have members and others, got {len(members)} and {len(others)}")
        values, places = np.unique(np.concatenate([members, others]), return_inverse=True)
        descending = len(values) - 1 - places
        return cls(
            thresholds=values[::-1].astype(np.float64),
            members=np.bincount(descending[: len(members)], minlength=len(values)).astype(np.int64),
            others=np.bincount(descending[len(members) :], minlength=len(values)).astype(np.int64),
        )

    @property
    def tpr(self) -> Scores:
        """Share of members at or above each threshold, a 0 before the first."""
        return _shares(self.members)

    @property
    def fpr(self) -> Scores:
        """Share of others at or above each threshold, a 0 before the first."""
        return _shares(self.others)

    @property
    def auc(self) -> float:
        """Probability that a member's score is above another's, ties half."""
        return float(_areas(self.members[None], self.others[None])[0])

    def tpr_at(self, fpr: float) -> float:
        """The rate of true positives at a rate of false ones."""
        return float(_rates_at(self.members[None], self.others[None], fpr)[0])

    def threshold_at(self, fpr: float) -> float:
        """The lowest score that keeps the rate of false positives; infinity if none does."""
        kept = int(_prefixes(self.others[None], fpr)[0])
        return float(self.thresholds[kept - 1]) if kept else float("inf")

    def intervals(
        self, fprs: Sequence[float], *, confidence: float, resamples: int, random: np.random.Generator
    ) -> tuple[Estimate, dict[float, Estimate]]:
        """(area, {fpr: rate of true positives}) with percentile intervals over members and others drawn anew, each with its threshold.

        Where all resamples are 0 or 1, Clopper and Pearson's interval for as many scores alike.
        """
        drawn = np.concatenate([
            np.column_stack([_areas(members, others), *(_rates_at(members, others, fpr) for fpr in fprs)])
            for members, others in self._resampled(resamples, random)
        ])
        found = percentiles(np.array([self.auc, *map(self.tpr_at, fprs)]), drawn, confidence)
        members, others = int(self.members.sum()), int(self.others.sum())
        for place, one in enumerate(found):
            if one.low == one.high and one.value in (0.0, 1.0):
                alike = members if place else min(members, others)
                found[place] = all_alike(one.value, alike, confidence, (0.0, 1.0))
        area, *rates = found
        return area, dict(zip(fprs, rates))

    def _resampled(self, resamples: int, random: np.random.Generator) -> Iterator[tuple[Counts, Counts]]:
        """Blocks [b, thresholds] of both counts."""
        width = len(self.thresholds)
        places = [np.repeat(np.arange(width), counts) for counts in (self.members, self.others)]
        largest = max(1, _BLOCK_COUNTS // max(width, *map(len, places)))
        for first in range(0, resamples, largest):
            rows = min(largest, resamples - first)
            members, others = (counted(side[random.integers(0, len(side), (rows, len(side)))], width) for side in places)
            yield members, others


@dataclass(frozen=True, kw_only=True)
class FixedThreshold:
    """Both rates at a threshold that was fixed before these scores were looked at, with Clopper and Pearson's intervals."""

    threshold: float  # scores at or above it count as positive
    tpr: Estimate  # share of members there
    fpr: Estimate  # share of others there


def at_threshold(members: Scores, others: Scores, threshold: float, confidence: float) -> FixedThreshold:
    """The rates at a given threshold; the intervals take scores to be independent of each other."""
    return FixedThreshold(
        threshold=threshold, tpr=clopper_pearson(int((members >= threshold).sum()), len(members), confidence),
        fpr=clopper_pearson(int((others >= threshold).sum()), len(others), confidence),
    )


def _shares(counts: Counts) -> Scores:
    return np.asarray(np.concatenate(([0], np.cumsum(counts))) / counts.sum())


def _areas(members: Counts, others: Counts) -> Scores:
    above = np.cumsum(members, axis=1)
    halves = (others * (2 * above - members)).sum(axis=1)
    return np.asarray(halves / (2.0 * members.sum(axis=1) * others.sum(axis=1)))


def _prefixes(others: Counts, fpr: float) -> Counts:
    """For each row, how many thresholds from the top keep the rate of false positives."""
    allowed = np.floor(fpr * others.sum(axis=1) * (1 + _SLACK))
    return np.asarray((np.cumsum(others, axis=1) <= allowed[:, None]).sum(axis=1))


def _rates_at(members: Counts, others: Counts, fpr: float) -> Scores:
    found = np.concatenate([np.zeros((len(members), 1), np.int64), np.cumsum(members, axis=1)], axis=1)
    return np.asarray(found[np.arange(len(found)), _prefixes(others, fpr)] / found[:, -1])
