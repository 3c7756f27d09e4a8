"""`ClipRule`: how rows are scaled before the exact sum clips them, each by public numbers and its own norms alone.

Parts of a row with norms of their own, automatic clipping, and a clip norm that adapts (docs/proofs/dp_sgd.md). What is proved of
a sum rests on its exact clip to the norm of whole rows; nothing here has to be right for that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# So that rounding does not bring a scaled row above its norm, for the exact clip to scale it again. As in clipped_sum.md.
_ROOM = 1 - 2.0**-20


class ClipRule(NamedTuple):
    """`limits` has the largest norm of whole rows, or those of the parts of a row. `gamma` is that of automatic clipping, 0 without.
    `beside` is the coordinate of a row below its limit beside an adaptive clip norm, None without one."""

    limits: tuple[float, ...]
    gamma: float
    beside: float | None

    def factors(self, norms: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return what the parts of rows are multiplied by, and the coordinates beside the rows: float64 [parts, rows], [0 or 1, rows].

        `norms` are those of the parts of rows, float64 [parts, rows]; one may be infinite, and its factor is 0.
        """
        limits = np.array(self.limits)[:, None]
        with np.errstate(over="ignore", divide="ignore"):
            of_limits = norms if len(limits) > 1 or len(norms) == 1 else np.sqrt(np.square(norms).sum(0, keepdims=True))
            factors = _ROOM * limits / (of_limits + self.gamma)
        if not self.gamma:
            factors = np.where(of_limits <= limits, 1.0, factors)
        beside = np.empty((0, norms.shape[1]))
        if self.beside is not None:
            beside = np.where(of_limits <= limits, self.beside, -self.beside)
        return np.broadcast_to(factors, norms.shape), beside
