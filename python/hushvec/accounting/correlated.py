"""Correlated noise of training: the noise of a step is a combination of the raw noise of that step and of earlier ones.

With C^-1 lower triangular, Toeplitz and banded, the run releases x + C^-1 z for its sums x: a function of C x + z, which is one
Gaussian mechanism on the whole run. Its sensitivity is that of C, by the steps that an example may take part in
(docs/proofs/correlated_noise.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec._util.lazy import needs_extra
from hushvec._util.rounding import decimal_root_up, products_up

MOST_BANDS = 32
MOST_STEPS = 2**20
_WORTH = 1.05  # of the error, what twice the bands, and about twice the time of the noise, must at least divide it by

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class CorrelatedNoise:
    """How the noise of a training run is correlated; `optimized` and `bisr` make one with good coefficients.

    Args:
        coefficients: c_0 = 1, c_1, ..., the first column of C^-1: the noise of step t is sigma (Z_t + c_1 Z_(t-1) + ...). 1 to 32 of
            them, c_1 and later in [-1, 0]; rounded to float32.
        steps: the most steps of the run, n.
        min_separation: b: an example in the batch of a step is in none of the next b - 1. `CyclicSampler` keeps it.
        max_participations: k, the most steps that one example takes part in; None: ceil(n / b), which b implies.

    Raises:
        ValueError: a number out of its range.

    Guarantees:
        A run whose sigma is at least noise_multiplier `sensitivity` clip_norm costs what one Gaussian mechanism of that noise
        multiplier does, for all steps together, whichever steps were taken, with models that depend on all releases before. Nothing
        is gained from sampling. A run that stops and begins its noise anew costs no more.

    Reference:
        Kalinin, McKenna, Upadhyay, Lampert (2025), "Back to square roots"; Choquette-Choo, McMahan, Rush, Thakurta (2023), theorem 2;
        docs/proofs/correlated_noise.md.

    Example:
        >>> from hushvec.training import CorrelatedNoise
        >>> noise = CorrelatedNoise.bisr(bands=4, steps=1024, min_separation=256)
        >>> noise.coefficients, round(noise.sensitivity, 3), round(noise.gain, 2)
        ((1.0, -0.5, -0.125, -0.0625), 2.547, 2.49)
    """

    coefficients: tuple[float, ...]
    steps: int
    min_separation: int
    max_participations: int | None = None

    def __post_init__(self) -> None:
        given = [validate.number("coefficients", value) for value in self.coefficients]
        if not 1 <= len(given) <= MOST_BANDS:
            raise ValueError(f"coefficients must be 1 to {MOST_BANDS}, got {len(given)}")
        if given[0] != 1 or not all(-1 <= value <= 0 for value in given[1:]):
            raise ValueError(f"coefficients must be 1, and in [-1, 0] from the second on, got {tuple(given)}")
        if sum(map(abs, given)) > 16:  # what the core takes
            raise ValueError(f"coefficients must have magnitudes that sum to at most 16, got {sum(map(abs, given))!r}")
        validate.whole_number("steps", self.steps, at_least=1, at_most=MOST_STEPS)
        validate.whole_number("min_separation", self.min_separation, at_least=1)
        implied = -(-self.steps // self.min_separation)
        most = implied if self.max_participations is None else self.max_participations
        validate.whole_number("max_participations", most, at_least=1)
        object.__setattr__(self, "coefficients", tuple(float(np.float32(value)) + 0.0 for value in given))
        object.__setattr__(self, "max_participations", min(most, implied))

    @classmethod
    def bisr(cls, *, bands: int, steps: int, min_separation: int, max_participations: int | None = None) -> CorrelatedNoise:
        """Banded inverse square root: the first `bands` coefficients of the root of I - shift, 1, -1/2, -1/8, -1/16, ..."""
        count = validate.whole_number("bands", bands, at_least=1, at_most=MOST_BANDS)
        series = [math.comb(2 * k, k) / (4**k * (1 - 2 * k)) for k in range(count)]
        return cls(coefficients=tuple(series), steps=steps, min_separation=min_separation, max_participations=max_participations)

    @classmethod
    def optimized(
        cls, *, bands: int | None = None, steps: int, min_separation: int, max_participations: int | None = None
    ) -> CorrelatedNoise:
        """The coefficients with the smallest error of prefix sums that a search by scipy finds, from one with two bands on.

        The error is that of the sums of all gradients so far, which plain SGD's parameters are. Seconds for thousands of steps. Needs
        hushvec[accounting].

        Args:
            bands: 2 to 32. Their noise is drawn again in every step: about two thirds of the time of as many releases with
                independent noise. None: 2, 4, 8, 16 or 32, the first whose double makes the error less than 5 % smaller.
            steps, min_separation, max_participations: as of the class.
        """
        most = MOST_BANDS if bands is None else validate.whole_number("bands", bands, at_least=2, at_most=MOST_BANDS)
        form = cls(coefficients=(1.0,), steps=steps, min_separation=min_separation, max_participations=max_participations)
        with needs_extra("solving for coefficients", "accounting"):
            from scipy.optimize import minimize, minimize_scalar
            from scipy.signal import lfilter
        unit = np.eye(1, steps)[0]

        def error(tail: Any) -> float:
            coefficients = np.array([1.0, *np.atleast_1d(-tail)])
            with np.errstate(over="ignore", invalid="ignore"):
                found = form._error(coefficients, lfilter([1.0], coefficients, unit))
            return math.log(found) if math.isfinite(found) else 1e3

        shift = minimize_scalar(error, bounds=(0.0, 1.0), method="bounded").x
        best, count = np.array([shift]), 2
        while count < most:
            count = min(2 * count, most)
            longer = np.pad(best, (0, count - 1 - len(best)))   # the best of half the bands, which more may not be worse than
            even = np.full(count - 1, shift / (count - 1))
            found = [minimize(error, start, method="L-BFGS-B", bounds=[(0.0, 1.0)] * (count - 1)) for start in (longer, even)]
            tail = min(found, key=lambda one: float(one.fun)).x
            if bands is None and error(best) - error(tail) < math.log(_WORTH):
                break
            best = tail
        return cls(
            coefficients=(1.0, *(-float(value) for value in best)),
            steps=steps, min_separation=min_separation, max_participations=max_participations,
        )

    @cached_property
    def sensitivity(self) -> float:
        """Of C in L2 where every example's share of a sum has norm at most 1, for all participations that are allowed; rounded up.

        The first column of C is made non-increasing from above; k columns that are b apart, from the first on, then have the longest
        sum of all sets of columns (docs/proofs/correlated_noise.md, claim 2). In decimals of 80 digits, each operation rounded up.
        """
        above, places = list(self._column), range(0, self.steps, self.min_separation)[: self.max_participations]
        for step in range(self.steps - 2, -1, -1):
            above[step] = max(above[step], above[step + 1])
        one = Decimal(1)
        totals = (products_up((one, above[step - place]) for place in places if place <= step) for step in range(self.steps))
        return decimal_root_up(products_up((total, total) for total in totals))

    @cached_property
    def gain(self) -> float:
        """How many times smaller the root mean square error of prefix sums is than with independent noise of equal privacy."""
        independent = math.sqrt(self.max_participations or 1) * math.sqrt((self.steps + 1) / 2)
        return independent / self._error(np.array(self.coefficients), np.array(self._column, np.float64))

    def to_dict(self) -> dict[str, Any]:
        """Its four fields, in types of JSON."""
        names = ("steps", "min_separation", "max_participations")
        return {"coefficients": list(self.coefficients), **{name: getattr(self, name) for name in names}}

    @cached_property
    def _column(self) -> list[Decimal]:
        """The first of C: C_0 = 1, C_k = -c_1 C_(k-1) - c_2 C_(k-2) - ...: sums of terms >= 0, rounded up."""
        weights = [Decimal(-value) for value in self.coefficients[1:]]
        column = [Decimal(1)]
        for _ in range(1, self.steps):
            column.append(products_up(zip(weights, reversed(column))))
        return column

    def _sensitivity(self, column: Floats) -> float:
        above = np.maximum.accumulate(column[::-1])[::-1]
        total = np.zeros_like(above)
        for place in range(0, self.steps, self.min_separation)[: self.max_participations]:
            total[place:] += above[: self.steps - place]
        return math.sqrt(float((total * total).sum()))

    def _error(self, coefficients: Floats, column: Floats) -> float:
        """Of prefix sums: the sensitivity times the root mean square of the rows of A C^-1, whose entries are sums of coefficients."""
        row = np.full(self.steps, coefficients.sum())
        shown = np.cumsum(coefficients)[: self.steps]
        row[: len(shown)] = shown
        squares = np.cumsum(row * row).mean()
        return self._sensitivity(column) * math.sqrt(float(squares))

