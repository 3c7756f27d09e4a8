"""k-ary randomised response: the true word with e^epsilon / (e^epsilon + k - 1), any other with 1 / (e^epsilon + k - 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec import _core
from hushvec.collect.oracles.oracle import UNIT, Oracle, binary_variance, codes_in_order, counts_fault, smallest_unsigned


@dataclass(frozen=True, kw_only=True)
class KaryResponse(Oracle):
    """A report is one word. Best for few words: fewer than about 3 e^epsilon + 2.

    Reference:
        Kairouz, Bonawitz, Ramage, "Discrete distribution estimation under local privacy" (2016).
    """

    name = "k_rr"

    @property
    def cells(self) -> int:
        return self.words

    @property
    def _p(self) -> float:
        return self.law[0] * UNIT

    @property
    def _q(self) -> float:
        return self.law[1] * UNIT

    @property
    def _gap(self) -> float:
        """p - q, from the whole numbers: they may agree in most of their digits."""
        return (self.law[0] - self.law[1]) * UNIT

    @property
    def mean_variance(self) -> float:
        return float(self._variance(1 / self.words))

    def _variance(self, frequency: Any) -> Any:
        return binary_variance(frequency, self._p, self._q, self._gap)

    @property
    def _dtype(self) -> Any:
        return smallest_unsigned(self.words - 1)

    @property
    def report_bytes(self) -> int:
        return int(self._dtype.itemsize)

    def draw(self, codes: NDArray[np.int64], source: Any) -> NDArray[Any]:
        return _core.randomized_response(codes.astype(self._dtype), self.words, self.law, source)

    @property
    def tallies(self) -> int:
        return self.words

    def add(self, reports: Any, tallies: NDArray[np.int64]) -> int:
        codes = codes_in_order(reports)
        _core.count_codes(codes, tallies)
        return len(codes)

    def tallies_fault(self, tallies: NDArray[np.int64], reports: int) -> str | None:
        return counts_fault(tallies, reports)

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
