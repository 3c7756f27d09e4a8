"""Optimized unary encoding: one bit per word, 1 with 1/2 for the true word and with 1 / (e^epsilon + 1) for any other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec.collect.oracles.oracle import BinomialTallies

_HALF = 1 << 63
_WORD_BITS = 32


@dataclass(frozen=True, kw_only=True)
class UnaryEncoding(BinomialTallies):
    """A report has a bit for every word: the smallest variance for many words, and the longest report.

    Reference:
        Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency estimation" (2017), section 4.3 (OUE).
    """

    name = "unary"

    @property
    def cells(self) -> int:
        return 2  # of one bit of another word: 0 with T, 1 with M

    @property
    def _truth_values(self) -> int:
        return _HALF

    @property
    def _report_words(self) -> int:
        return -(-self.words // _WORD_BITS)

    @property
    def report_bytes(self) -> int:
        return 4 * self._report_words

    def draw(self, codes: NDArray[np.int64], source: Any) -> NDArray[Any]:
        return _core.bit_reports(codes, self.words, (_HALF, self.law[1]), source)

    def add(self, reports: Any, tallies: NDArray[np.int64]) -> int:
        rows = bit_rows(reports, self.words)
        _core.count_bits(rows, self.words, tallies)
        return len(rows)

    def tallies_fault(self, tallies: NDArray[np.int64], reports: int) -> str | None:
        return bit_counts_fault(tallies, reports)


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
