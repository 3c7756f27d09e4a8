"""How rows are scaled before the exact sum clips them, each by public numbers and its own norms alone; and `AdaptiveClip`, a clip
norm that follows a quantile of the norms of what is clipped, by one more coordinate of the rows.

Parts of a row with norms of their own, automatic clipping, and a clip norm that adapts (docs/proofs/dp_sgd.md). What is proved of
a sum rests on its exact clip to the norm of whole rows; nothing here has to be right for that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate

# What is below a unit, clip_norm 2^-25, is dropped (docs/format.md section 7). Above this, usual gradients vanish one and all.
LARGEST_CLIP_NORM = 2.0**20
SMALLEST_ADAPTED = 2.0**-90


@dataclass(frozen=True, kw_only=True)
class AdaptiveClip:
    """A clip norm for `DPOptimizer` or `PrivateAverage` that follows a quantile of the norms of gradients, or of clients' updates.

    After each step C becomes C exp(-learning_rate (share - quantile)), with a noisy share of the norms that are at most C.

    Args:
        quantile: in (0, 1), the share of gradients that are to be left as long as they are.
        learning_rate: > 0.
        count_sigma: standard deviation of the noise on the number of norms that are at most C; more than half the noise multiplier.
            None: a twentieth of the expected number, or the noise multiplier if that is more. The noise multiplier z on the sum is
            raised to (z^-2 - (2 count_sigma)^-2)^(-1/2), so that both together cost what z does.

    Reference:
        Andrew, Thakkar, McMahan, Ramaswamy (2021), "Differentially private learning with adaptive clipping", algorithm 1 and
        theorem 1; docs/proofs/dp_sgd.md, "A clip norm that adapts".

    Example:
        >>> import numpy as np
        >>> from hushvec.federated import PrivateAverage
        >>> from hushvec.training import AdaptiveClip
        >>> average = PrivateAverage(clip_norm=0.1, clients=1000, epsilon=4.0, delta=1e-5, rounds=10, adaptive=AdaptiveClip())
        >>> for _ in range(10):
        ...     values, receipt = average.aggregate([[np.ones(3, np.float32)]] * 1000)
        >>> 0.2 < average.clip_norm < 0.1 * 2.72   # e^(0.2 * 10 * 0.5) if no update is below
        True
    """

    quantile: float = 0.5
    learning_rate: float = 0.2
    count_sigma: float | None = None

    def __post_init__(self) -> None:
        validate.keep_floats(self, "quantile", "learning_rate", "count_sigma")
        validate.probability("quantile", self.quantile)
        validate.positive("learning_rate", self.learning_rate)
        if self.count_sigma is not None:
            validate.positive("count_sigma", self.count_sigma)

    def coordinate(self, noise_multiplier: float, expected: float) -> float:
        """What a row has beside the gradient, + or -, in clip norms: 1 / sqrt((2 count_sigma / z)^2 - 1)."""
        sigma = max(expected / 20, noise_multiplier) if self.count_sigma is None else self.count_sigma
        if 2 * sigma <= noise_multiplier:
            raise ValueError(f"count_sigma must be > noise_multiplier / 2 = {noise_multiplier / 2:.6g}, got {sigma:.6g}")
        if noise_multiplier == 0:
            raise ValueError("noise_multiplier must be > 0 with an adaptive clip norm, got 0.0")
        return 1 / math.sqrt((2 * sigma / noise_multiplier) ** 2 - 1)


class RowNorm:
    """The norm that rows are clipped to: the clip norm, and with an `AdaptiveClip`, which changes it, the coordinate beside.

    Args:
        expected: the public number that sums are divided by.
    """

    def __init__(self, clip_norm: float, adaptive: AdaptiveClip | None, noise_multiplier: float, expected: float) -> None:
        validate.instance("adaptive", adaptive, AdaptiveClip | None, "a hushvec.training.AdaptiveClip or None")
        self._adaptive = adaptive
        self._beside = 0.0 if adaptive is None else adaptive.coordinate(noise_multiplier, expected)
        self.of_rows = min(clip_norm * math.hypot(1.0, self._beside), LARGEST_CLIP_NORM)

    @property
    def adapts(self) -> bool:
        return self._adaptive is not None

    @property
    def clip_norm(self) -> float:
        """Of the gradient or update in a row."""
        return self.of_rows / math.hypot(1.0, self._beside)

    @property
    def beside(self) -> float:
        """The coordinate of a row whose gradient has at most this norm; its negative is that of the others."""
        return self._beside * self.clip_norm

    def follow(self, beside: float) -> None:
        """The next norm, from the noisy sum of coordinates divided by the expected number of rows."""
        assert self._adaptive is not None
        share = min(max(0.5 + beside / (2 * self.beside), 0.0), 1.0)
        moved = self.of_rows * math.exp(-self._adaptive.learning_rate * (share - self._adaptive.quantile))
        self.of_rows = min(max(moved, SMALLEST_ADAPTED), LARGEST_CLIP_NORM)


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
