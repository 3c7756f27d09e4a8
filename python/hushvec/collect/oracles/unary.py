"""Optimised unary encoding: one bit a word, 1 with 1/2 for the true word and with 1 / (e^epsilon + 1) for any other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec import _core
from hushvec.collect.oracles.oracle import UNIT, Oracle, binary_variance

_HALF = 1 << 63
_WORD_BITS = 32


@dataclass(frozen=True, kw_only=True)
class UnaryEncoding(Oracle):
    """A report has a bit for every word: the smallest variance for many words, and the longest report.

    Reference:
        Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency estimation" (2017), section 4.3 (OUE).
    """

    name = "unary"

    @property
    def cells(self) -> int:
        return 2  # of one bit of another word: 0 with T, 1 with M

    @property
    def _q(self) -> float:
        return self.law[1] * UNIT

    @property
    def _gap(self) -> float:
        """1/2 - q, from the whole numbers."""
        return (_HALF - self.law[1]) * UNIT

    @property
    def mean_variance(self) -> float:
        return float(self._variance(1 / self.words))

    def _variance(self, frequency: Any) -> Any:
        return binary_variance(frequency, 0.5, self._q, self._gap)

    @property
    def _report_words(self) -> int:
        return -(-self.words // _WORD_BITS)

    @property
    def report_bytes(self) -> int:
        return 4 * self._report_words

    def draw(self, codes: NDArray[np.int64], source: Any) -> NDArray[Any]:
        return _core.bit_reports(codes, self.words, (_HALF, self.law[1]), source)

    @property
    def tallies(self) -> int:
        return self.words

    def add(self, reports: Any, tallies: NDArray[np.int64]) -> int:
        rows = bit_rows(reports, self.words)
        _core.count_bits(rows, self.words, tallies)
        return len(rows)

    def tallies_fault(self, tallies: NDArray[np.int64], reports: int) -> str | None:
        return bit_counts_fault(tallies, reports)

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


def bit_rows(reports: Any, bits: int) -> NDArray[np.uint32]:
    """Reports of bits as the core reads them: uint32 [n, ceil(bits / 32)]; one report alone may have one dimension."""
    array = np.asarray(reports)
    if array.dtype.kind != "u" or array.dtype.itemsize != 4:
        raise TypeError(f"reports must be an array of uint32 that hold packed bits, got {array.dtype}")
    width = -(-bits // _WORD_BITS)
    rows = array[None, :] if array.ndim == 1 else array
    if rows.ndim != 2 or rows.shape[1] != width:
        raise ValueError(f"reports must have shape (n, {width}) for {bits} bits, got {array.shape}")
    return np.ascontiguousarray(rows, dtype=np.uint32)


def bit_counts_fault(tallies: NDArray[np.int64], reports: int) -> str | None:
    largest = int(tallies.max())
    return None if largest <= reports else f"it counts {largest} ones in {reports} reports"
