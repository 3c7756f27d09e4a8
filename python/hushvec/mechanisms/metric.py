"""Metric differential privacy: P(M(x) in S) <= exp(e |x - x'|_2) P(M(x') in S) for all inputs x, x' and events S.

Nothing is clipped and there are no neighbors. e has the unit 1 / distance, so it is no epsilon: docs/proofs/metric_dp.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, total_ordering
from typing import Any, ClassVar

from hushvec._native import _core, arrays, kernels, rowwise
from hushvec._native.kernels import require_generator
from hushvec._native.rowwise import as_array
from hushvec._util import validate
from hushvec._util.rounding import float32_up, fraction_up
from hushvec.noise import add_noise

_NO_SUM = "a metric epsilon (unit 1/distance) cannot be added to {other}: their units differ; on_diameter(D) converts it"
_NO_COMPARISON = "a metric epsilon (unit 1/distance) cannot be compared with {other}: their units differ; on_diameter(D) converts it"


@total_ordering
@dataclass(frozen=True, eq=False, repr=False)
class MetricEpsilon:
    """How fast the privacy loss grows with the L2 distance of two inputs, per unit of that distance. It cannot be changed.

    Args:
        value: > 0 and finite, in 1/distance; a plain number.

    Raises:
        TypeError: it is added to or compared with anything but another metric epsilon; `sum` starts from 0, so take `compose`.

    Guarantees:
        Sums are rounded up, so that a composition is never stated too small.

    Reference:
        Chatzikokolakis, Andres, Bordenabe, Palamidessi, "Broadening the scope of differential privacy using metrics" (2013): the
        definition of d-privacy, for the distance epsilon |x - x'|_2.

    Example:
        >>> from hushvec.mechanisms import MetricEpsilon
        >>> loss = MetricEpsilon(4.0) + MetricEpsilon(2.0)
        >>> loss, loss.on_diameter(2.0)
        (MetricEpsilon(6.0), (12.0, 0.0))
    """

    # numpy would take the object apart and add elements; this makes it leave the operators to the ones below.
    __array_ufunc__ = None

    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", validate.positive("metric epsilon", self.value))

    def on_diameter(self, diameter: float) -> tuple[float, float]:
        """The (epsilon, 0) of local differential privacy for inputs from a set of this diameter: value * diameter, rounded up.

        Args:
            diameter: largest L2 distance between two possible inputs, > 0, in the unit of the inputs. Rows clipped to norm C: 2 C.
        """
        product = Fraction(self.value) * Fraction(validate.positive("diameter", diameter))
        return _up("metric epsilon * diameter", product), 0.0

    @classmethod
    def compose(cls, losses: Iterable[MetricEpsilon]) -> MetricEpsilon:
        """Cost of several releases of one input: the sum of at least one metric epsilon, rounded up once."""
        listed = list(losses)
        if not listed:
            raise ValueError("losses must hold at least one metric epsilon, got none")
        for loss in listed:
            if not isinstance(loss, MetricEpsilon):
                raise TypeError(_NO_SUM.format(other=_described(loss)))
        return cls(_up("the sum of metric epsilons", sum((Fraction(loss.value) for loss in listed), Fraction(0))))

    def __add__(self, other: object) -> MetricEpsilon:
        if not isinstance(other, MetricEpsilon):
            raise TypeError(_NO_SUM.format(other=_described(other)))
        return MetricEpsilon.compose([self, other])

    __radd__ = __add__

    def __eq__(self, other: object) -> bool:
        return self.value == self._comparable(other)

    def __lt__(self, other: object) -> bool:
        return self.value < self._comparable(other)

    def __hash__(self) -> int:
        return hash((MetricEpsilon, self.value))

    def __repr__(self) -> str:
        return f"MetricEpsilon({self.value!r})"

    def __str__(self) -> str:
        return f"{self.value:g} per unit distance"

    @staticmethod
    def _comparable(other: object) -> float:
        if not isinstance(other, MetricEpsilon):
            raise TypeError(_NO_COMPARISON.format(other=_described(other)))
        return other.value


@dataclass(frozen=True, kw_only=True)
class MetricLaplace:
    """L2-Laplace noise of scale 1/epsilon on rows of any length: metric differential privacy in the L2 distance.

    Args:
        epsilon: a `MetricEpsilon`, or its value as a plain number, in 1/distance; in [2^-100, 2^100].
        dimension: d, elements in a row.

    Guarantees:
        In real arithmetic the output densities at x and x' differ by a factor of at most exp(epsilon |x - x'|_2), for **all** pairs:
        nothing is clipped. Rows released together have exp(epsilon sum_i |x_i - x'_i|_2). The scale is rounded up to float32. The
        noise is computed in floating point (grade "float"), so what is released carries no claim of privacy.

    Reference:
        Chatzikokolakis et al. (2013), d-privacy; Fernandes, Dras, McIver, "Generalised differential privacy for text document
        processing" (2019), the n-dimensional Laplace mechanism.

    Example:
        >>> from hushvec.mechanisms import MetricLaplace
        >>> mechanism = MetricLaplace(epsilon=100.0, dimension=384)
        >>> mechanism.cost, mechanism.cost.on_diameter(2.0), round(mechanism.expected_cosine(), 3)
        (MetricEpsilon(100.0), (200.0, 0.0), 0.252)
        >>> print("\\n".join(mechanism.describe()))
        metric Laplace, dimension 384, no clipping
        costs 100 per unit distance: exp(100 |x - x'|) between any two inputs, not an (epsilon, delta)
        on unit rows (diameter 2) that implies epsilon = 200, delta = 0
        scale 0.01; noise norm 3.84, expected cosine 0.252 for a row of length 1
        grade float: computed in floating point, so no claim of differential privacy
    """

    name: ClassVar[str] = "metric_laplace"
    law: ClassVar[str] = "l2_laplace"
    grade: ClassVar[str] = "float"

    epsilon: MetricEpsilon | float
    dimension: int

    def __post_init__(self) -> None:
        if not isinstance(self.epsilon, MetricEpsilon):
            object.__setattr__(self, "epsilon", MetricEpsilon(validate.positive("epsilon", self.epsilon)))
        object.__setattr__(self, "dimension", validate.whole_number("dimension", self.dimension, at_least=1))
        inverse = 1 / Fraction(self.cost.value)
        if not Fraction(validate.SMALLEST_NORM) <= inverse <= Fraction(validate.LARGEST_NORM):
            raise ValueError(f"epsilon must be in [2^-100, 2^100], got {self.cost.value!r}")

    @property
    def cost(self) -> MetricEpsilon:
        """Cost of one release to each person in it: a metric epsilon, and never a pair."""
        assert isinstance(self.epsilon, MetricEpsilon)
        return self.epsilon

    @cached_property
    def scale(self) -> float:
        """1/epsilon in the unit of distance, rounded up to float32."""
        return float(float32_up(1 / Fraction(self.cost.value)))

    @property
    def noise_norm(self) -> float:
        """Root mean square of the L2 norm of one row's noise: scale * sqrt(d (d + 1))."""
        return self.scale * math.sqrt(self.dimension * (self.dimension + 1))

    def expected_cosine(self, norm: float = 1.0) -> float:
        """About the cosine between a row of this L2 norm and its noisy version: norm / sqrt(norm^2 + noise_norm^2)."""
        signal = validate.positive("norm", norm)
        return signal / math.hypot(signal, self.noise_norm)

    def describe(self) -> tuple[str, ...]:
        """Lines that say what a release costs and what is left of a row, before anything is spent."""
        return (
            f"metric Laplace, dimension {self.dimension}, no clipping",
            f"costs {self.cost}: exp({self.cost.value:g} |x - x'|) between any two inputs, not an (epsilon, delta)",
            f"on unit rows (diameter 2) that implies epsilon = {self.cost.on_diameter(2.0)[0]:g}, delta = 0",
            f"scale {self.scale:.6g}; noise norm {self.noise_norm:.3g}, "
            f"expected cosine {self.expected_cosine():.3f} for a row of length 1",
            "grade float: computed in floating point, so no claim of differential privacy",
        )

    def release(self, x: Any, *, generator: _core.Generator | None = None) -> Any:
        """A new array of x's kind, shape and dtype: x with noise on every row.

        Args:
            x: float array [d] or [n, d] of this dimension, numpy, torch (CPU, CUDA) or CuPy, or a list as in `hushvec.privatize`.
            generator: key stream; the process-wide one, keyed by the operating system, if None.
        """
        source = require_generator(generator)
        given, x = x, as_array("x", x)
        arrays.require_array("x", x)
        _, dimension = arrays.rows_and_dimension(x)
        if dimension != self.dimension:
            raise ValueError(f"x must have {self.dimension} columns, got {dimension}")
        kernels.require_release(x, self.law)
        rowwise.require_finite("x", x)
        noise = arrays.empty_like(x)
        kernels.fill(noise, self.law, self.scale, source)
        return arrays.returned(given, add_noise(x, noise))


def _up(name: str, exact: Fraction) -> float:
    value = fraction_up(exact)
    if value == math.inf:
        raise ValueError(f"{name} must be finite in float64")
    return value


def _described(other: object) -> str:
    if isinstance(other, tuple):
        return "a pair (epsilon, delta)" if len(other) == 2 else "a tuple"
    return f"a plain number, {other!r}" if isinstance(other, int | float) else f"an object of type {validate.kind(other)}"
