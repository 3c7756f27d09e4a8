"""k-ary randomized response: the true word with e^epsilon / (e^epsilon + k - 1), any other with 1 / (e^epsilon + k - 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec.collect.oracles.oracle import BinomialTallies, CodeReports


@dataclass(frozen=True, kw_only=True)
class KaryResponse(CodeReports, BinomialTallies):
    """A report is one word. Best for few words: fewer than about 3 e^epsilon + 2.

    Reference:
        Kairouz, Bonawitz, Ramage, "Discrete distribution estimation under local privacy" (2016).
    """

    name = "k_rr"

    @property
    def cells(self) -> int:
        return self.words

    @property
    def _truth_values(self) -> int:
        return self.law[0]

    def draw(self, codes: NDArray[np.int64], source: Any) -> NDArray[Any]:
        return _core.randomized_response(codes.astype(self._dtype), self.words, self.law, source)
