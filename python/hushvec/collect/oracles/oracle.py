"""What every frequency oracle can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._util.rounding import fraction_up, log_ratio_up
from hushvec.collect.sketch_bytes import exact_sum
from hushvec.mechanisms import RandomizedResponse

MOST_WORDS = 2**24

UNIT = 2.0**-64


@dataclass(frozen=True, kw_only=True)
class Oracle(ABC):
    """A randomizer of one word among `words` of them, the codes 0 to words - 1, and the arithmetic of its reports.

    Raises:
        ValueError: an epsilon so small that reports would carry nothing.
    """

    name: ClassVar[str]

    words: int
    epsilon: float

    def __post_init__(self) -> None:
        truth, other = self.law
        if truth <= other:
            raise ValueError(f"epsilon must be large enough to prefer the truth among {self.words} words, got {self.epsilon!r}")

    # ---- the law ----

    @property
    @abstractmethod
    def cells(self) -> int:
        """How many outcomes the law of whole numbers chooses among."""

    @cached_property
    def law(self) -> tuple[int, int]:
        """(T, M): of the 2^64 equally likely values, T are the truth's and M those of each other cell."""
        return RandomizedResponse(epsilon=self.epsilon, k=self.cells).law

    @cached_property
    def true_epsilon(self) -> float:
        """ln(T / M), rounded up: the epsilon of a report as sampled, at most `epsilon`."""
        return fraction_up(log_ratio_up(*self.law))

    @property
    @abstractmethod
    def mean_variance(self) -> float:
        """Of the estimated frequency, averaged over all words, times the number of reports."""

    # ---- reports ----

    @property
    @abstractmethod
    def report_bytes(self) -> int:
        """Size of a report as it is stored and sent."""

    @abstractmethod
    def draw(self, codes: NDArray[np.int64], source: Any) -> NDArray[Any]:
        """One report a code."""

    # ---- tallies: what a collector keeps ----

    @property
    @abstractmethod
    def tallies(self) -> int:
        """How many whole numbers a collector keeps."""

    @abstractmethod
    def add(self, reports: Any, tallies: NDArray[np.int64]) -> int:
        """Add reports to the tallies; how many they were. Changes nothing where it raises."""

    @abstractmethod
    def tallies_fault(self, tallies: NDArray[np.int64], reports: int) -> str | None:
        """Why these cannot be the tallies of as many reports, or None."""

    # ---- estimates ----

    @abstractmethod
    def frequencies(self, tallies: NDArray[np.int64], reports: int) -> NDArray[np.float64]:
        """Unbiased, one a word."""

    @abstractmethod
    def variances(self, frequencies: NDArray[np.float64], tallies: NDArray[np.int64], reports: int) -> NDArray[np.float64]:
        """Of the estimates, where the words have the given frequencies."""

    @abstractmethod
    def variance_at(self, frequency: float, reports: int) -> float:
        """Of the estimate of a word of this frequency, before any report."""

    @abstractmethod
    def null_counts(self, tallies: NDArray[np.int64], reports: int) -> tuple[NDArray[np.int64], NDArray[np.int64], float]:
        """(successes, trials, probability), one a word: a word that nobody has makes its successes exactly binomial."""


class CodeReports(Oracle):
    """Reports that are codes: every one adds one to the tally of its code."""

    @property
    def _dtype(self) -> Any:
        return np.min_scalar_type(self.tallies - 1)

    @property
    def report_bytes(self) -> int:
        return int(self._dtype.itemsize)

    def add(self, reports: Any, tallies: NDArray[np.int64]) -> int:
        codes = codes_in_order(reports)
        _core.count_codes(codes, tallies)
        return len(codes)

    def tallies_fault(self, tallies: NDArray[np.int64], reports: int) -> str | None:
        total = exact_sum(tallies)
        return None if total == reports else f"its counts add up to {total}, not to its {reports} reports"


class BinomialTallies(Oracle):
    """A tally a word: a report adds to it with probability p where the word is its truth, and with q where another is."""

    @property
    @abstractmethod
    def _truth_values(self) -> int:
        """p, in whole numbers over 2^64."""

    @property
    def _p(self) -> float:
        return self._truth_values * UNIT

    @property
    def _q(self) -> float:
        return self.law[1] * UNIT

    @property
    def _gap(self) -> float:
        """p - q, from the whole numbers: they may agree in most of their digits."""
        return (self._truth_values - self.law[1]) * UNIT

    def _variance(self, frequency: Any) -> Any:
        return binary_variance(frequency, self._p, self._q, self._gap)

    @property
    def mean_variance(self) -> float:
        return float(self._variance(1 / self.words))

    @property
    def tallies(self) -> int:
        return self.words

    def frequencies(self, tallies: NDArray[np.int64], reports: int) -> NDArray[np.float64]:
        result: NDArray[np.float64] = (tallies / reports - self._q) / self._gap
        return result

    def variances(self, frequencies: NDArray[np.float64], tallies: NDArray[np.int64], reports: int) -> NDArray[np.float64]:
        result: NDArray[np.float64] = self._variance(frequencies) / reports
        return result

    def variance_at(self, frequency: float, reports: int) -> float:
        return float(self._variance(frequency)) / reports

    def null_counts(self, tallies: NDArray[np.int64], reports: int) -> tuple[NDArray[np.int64], NDArray[np.int64], float]:
        return tallies, np.full(self.words, reports, np.int64), self._q


def binary_variance(frequency: Any, p: float, q: float, gap: float) -> Any:
    """Of one report's contribution to the estimate, for a word reported with p where it is the truth and with q elsewhere.

    Args:
        gap: p - q, which the caller has without cancellation.
    """
    return (frequency * p * (1 - p) + (1 - frequency) * q * (1 - q)) / gap**2


def codes_in_order(reports: Any) -> NDArray[Any]:
    """Reports that are codes, as the core reads them: C-contiguous, one dimension, native bytes."""
    array = np.asarray(reports)
    if array.dtype.kind not in "iu":
        raise TypeError(f"reports must be an array of whole numbers, got {array.dtype}")
    return np.ascontiguousarray(array.ravel(), dtype=array.dtype.newbyteorder("="))
