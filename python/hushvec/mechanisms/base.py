"""Base classes of mechanisms, and of those for vectors. `hushvec.mechanisms` describes the setting."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hushvec._native import _core, kernels
from hushvec._native.arrays import CheckedRows, returned, shared
from hushvec._native.kernels import require_generator
from hushvec._native.rowwise import checked_rows
from hushvec._util import validate
from hushvec._util.rounding import root_up, rounded_up
from hushvec.mechanisms.laws import Rows, Table

if TYPE_CHECKING:
    from typing_extensions import Self

    from hushvec.accounting import PrivacyLoss

ADJACENCY = "replace-one"

# What `describe` prints of a computed cost: this many digits, rounded up, at these Renyi orders.
_COST_DIGITS = 4
_ORDERS = (2, 8, 32)

_GRADES = {
    "exact": "grade exact: the released bits carry the claim",
    "float": "grade float: computed in floating point; the costs are those of real arithmetic, and no claim is made",
}


@dataclass(frozen=True, kw_only=True)
class Mechanism(ABC):
    """Base of all mechanisms. Guarantees are under replace-one of all rows of one person: hushvec.mechanisms has the setting.

    Args:
        dimension: d, elements in a row.
        clip_norm: C, the L2 norm that every row is clipped to.
        rows_per_person: r, how many rows one person contributes; public.
    """

    name: ClassVar[str]
    law: ClassVar[str]
    grade: ClassVar[str]
    adjacency: ClassVar[str] = ADJACENCY
    # Whether the length of a row has no influence on its release.
    directions_only: ClassVar[bool] = False
    # Whether rows are whole numbers, and so their releases.
    integers: ClassVar[bool] = False
    # Whether version 3 of the release format has this noise: docs/format.md section 16.
    half_words: ClassVar[bool] = False

    dimension: int
    clip_norm: float = 1.0
    rows_per_person: int = 1

    def __post_init__(self) -> None:
        self._keep("dimension", validate.whole_number("dimension", self.dimension, at_least=1))
        self._keep("clip_norm", validate.clip_norm(self.clip_norm))
        self._keep("rows_per_person", validate.whole_number("rows_per_person", self.rows_per_person, at_least=1))
        given = vars(self)
        if "epsilon" in given:
            self._keep("epsilon", validate.positive("epsilon", given["epsilon"]))
        if "delta" in given:
            self._keep("delta", validate.delta(given["delta"]))

    def _keep(self, name: str, value: float) -> None:
        """The checked form of an argument in its place: 8 and numpy's 8 are the float 8.0 in receipts, jobs and files alike."""
        object.__setattr__(self, name, value)

    if TYPE_CHECKING:

        @property
        def epsilon(self) -> float: ...

    @property
    def cost(self) -> tuple[float, float]:
        """(epsilon, delta) that one release costs each person in it: its own epsilon, and its delta if it has one."""
        return self.epsilon, getattr(self, "delta", 0.0)

    @property
    def loss(self) -> PrivacyLoss:
        """The privacy loss of one release, for `hushvec.accounting`: the cost in every other currency.

        It follows from `cost` alone; mechanisms whose whole profile is known say more. It is the loss of the mechanism over the
        reals: for grade "exact" the released bits have it too, for grade "float" nothing is claimed about them.
        """
        from hushvec.accounting import ApproximateDP, PureDP

        epsilon, delta = self.cost
        if delta > 0:
            return ApproximateDP(epsilon=epsilon, delta=delta, adjacency=self.adjacency)
        return PureDP(epsilon=epsilon, adjacency=self.adjacency)

    @property
    def int8_grid(self) -> float:
        """The power of two that int8 values are multiplied by: docs/format.md, section 14. ValueError where there are none."""
        known = "int8 values are those of 'gaussian', 'empirical' and 'privunit'"
        raise ValueError(f"dtype must be None for mechanism {self.name!r}: {known}")

    @property
    def int8_saturation(self) -> float:
        """At most this share of the int8 values of a clipped row is expected to saturate: docs/proofs/saturation.md."""
        return self.int8_grid  # which raises

    @abstractmethod
    def expected_cosine(self, norm: float | None = None) -> float:
        """About the cosine between a row, of L2 norm `norm` after clipping (clip_norm if None), and its release."""

    @abstractmethod
    def describe(self) -> tuple[str, ...]:
        """Lines that say what a release costs and what it leaves of a row, before anything is spent."""

    def require_release(self, x: Any) -> None:
        """Raise whatever would keep a release of x, an array or `CheckedRows`, from being computed, short of NaN and Inf."""
        rows = x if isinstance(x, CheckedRows) else checked_rows("x", x, finite=False)
        if rows.on_cuda:
            kernels.require_release(rows.values, self.law)

    def apply(self, x: Any, out: Any, generator: _core.Generator, *, out_is_fresh: bool = False) -> Any:
        """The release of x, exactly rounded where the grade is exact: in `out`, or in a new array if that is None. Returns it.

        x may be out. Nothing is written where x is refused, unless `out_is_fresh` says that nobody else can see `out` yet: then
        part of the result may be in it (on CUDA all of it always is), and x is read once and not twice.
        """
        source = require_generator(generator)
        if isinstance(x, np.ndarray) and isinstance(out, (np.ndarray, type(None))):
            return self._release(x, out, source, out_is_fresh)
        return returned(x, self._release(shared("x", x), shared("out", out, written=True), source, out_is_fresh), out)

    @abstractmethod
    def _release(self, x: Any, out: Any, source: _core.Generator, out_is_fresh: bool) -> Any:
        """`apply`, with its generator checked."""


class VectorMechanism(Mechanism):
    """Mechanisms whose releases are noisy vectors: noise of one size, on a grid where the grade is exact."""

    sensitivity_norm: ClassVar[str]
    # The norm in which rows are clipped to clip_norm.
    clipped_in: ClassVar[str] = "l2"
    half_words = True
    # "sigma" or "scale": the attribute that is `noise_parameter`, and its name in receipts.
    parameter_name: ClassVar[str]
    # Attributes, and fields of receipts, that its law has beside that one.
    further_numbers: ClassVar[tuple[str, ...]] = ()

    @property
    def noise_parameter(self) -> float:
        """sigma or scale, as used: a float32, or a float64 for whole numbers."""
        return float(getattr(self, self.parameter_name))

    @property
    @abstractmethod
    def noise_norm(self) -> float:
        """Root mean square of the L2 norm of one row's noise."""

    @property
    def sensitivity(self) -> float:
        """How far the clipped data of one person can move, in the norm that `sensitivity_norm` names."""
        return sensitivity_of(type(self), self.clip_norm, self.rows_per_person, self.dimension)

    @classmethod
    def _squared_sensitivity(cls, one_row: Fraction, rows: int, dimension: int) -> Fraction:
        """For rows that each move by at most one_row in the norm of the clip, where the distances of the rows of one person add up."""
        return (one_row * rows) ** 2 * (1 if cls.sensitivity_norm == cls.clipped_in else dimension)

    @classmethod
    def stated(cls, numbers: Mapping[str, Any]) -> Self:
        """Return the mechanism that a receipt describes: attributes as they are stated, none of them calibrated or checked.

        Args:
            numbers: dimension, clip_norm, rows_per_person, epsilon, released_grid, `parameter_name`, those of `further_numbers`,
                and delta if the mechanism takes it.
        """
        made = object.__new__(cls)
        vars(made).update(numbers)
        return made

    @cached_property
    def released_grid(self) -> float | None:
        """The power of two that the values of a release are multiples of: `grid`, or what a receipt states."""
        return self.grid

    def log_densities(self, rows: Rows, centers: Rows, *, unit_length: bool = False) -> Table:
        """Return ln of the density of each released row behind each clean one, less a term of the row, which cancels in ratios.

        Args:
            rows: released rows, float32 or float64 [m, dimension].
            centers: clean rows [c, dimension] of the same dtype, as the mechanism takes them in.
            unit_length: rows were brought to unit length after the noise. The expected length is used, which is accurate in
                many dimensions, or the law of a direction where that is known.

        Returns:
            float64 [m, c].

        Raises:
            NotImplementedError: the mechanism declares no density.
        """
        stretched = rows * rows.dtype.type(math.hypot(self.clip_norm, self.noise_norm)) if unit_length else rows
        return self._log_densities(stretched, centers)

    def _log_densities(self, rows: Rows, centers: Rows) -> Table:
        raise NotImplementedError(f"mechanism {self.name!r} declares no density of its rows")

    @property
    def grid(self) -> float | None:
        """The power of two that exact values are multiples of; None for the float grade.

        That of a release by a generator without a seed. From a seed it may be finer: `grid_of`.
        """
        return self.grid_of(half_words=self.half_words)

    def grid_of(self, *, half_words: bool) -> float | None:
        """The grid of version 3 of the release format, or of the versions before it."""
        return _core.exact_grid(self.noise_parameter, self.clip_norm, half_words)[1] if self.grade == "exact" else None

    def expected_cosine(self, norm: float | None = None) -> float:
        """norm / sqrt(norm^2 + noise_norm^2)."""
        signal = self.clip_norm if norm is None else validate.positive("norm", norm)
        return signal / math.hypot(signal, self.noise_norm)

    def describe(self) -> tuple[str, ...]:
        epsilon, delta = self.cost
        loss = self.loss
        renyi = ", ".join(f"{_stated(loss.rdp(order))} (order {order})" for order in _ORDERS)
        rows = f", {self.rows_per_person:,} rows per person" if self.rows_per_person > 1 else ""
        return (
            f"{self.name}, dimension {self.dimension}, clip norm {self.clip_norm:g}{' (L1)' if self.clipped_in == 'l1' else ''}{rows}",
            self._parameters(),
            f"one release costs epsilon = {epsilon!r}, delta = {delta!r}",
            f"or rho = {_stated(loss.rho)} (zero-concentrated), or in Renyi DP {renyi}",
            f"noise norm {self.noise_norm:.4g}, expected cosine {self.expected_cosine():.4f} for a row of length {self.clip_norm:g}",
            _GRADES[self.grade],
        )

    def _parameters(self) -> str:
        norm = f"{self.sensitivity_norm.upper()}, {self.adjacency}"
        return f"sensitivity {self.sensitivity:.6g} ({norm}), {self.parameter_name} {self.noise_parameter:.6g}"

    def _release(self, x: Any, out: Any, source: _core.Generator, out_is_fresh: bool) -> Any:
        exact = self.grade == "exact"
        return kernels.clip_and_noise(x, self.clip_norm, self.noise_parameter, out, source, self.law, exact, out_is_fresh=out_is_fresh)


@lru_cache(maxsize=1024)  # each release asks three times, and exact arithmetic takes longer than the noise of a row
def sensitivity_of(mechanism: type[VectorMechanism], clip_norm: float, rows_per_person: int, dimension: int) -> float:
    """The sensitivity column of the table in hushvec.mechanisms, rounded up to a double."""
    return root_up(mechanism._squared_sensitivity(2 * Fraction(clip_norm), rows_per_person, dimension))


def _stated(cost: float) -> str:
    """A computed cost in few digits, never smaller than it is."""
    return f"{rounded_up(cost, _COST_DIGITS):g}"


def as_used(name: str, value: float, clip_norm: float) -> float:
    """sigma or scale as the core takes it: rounded up to float32, in the range of exact rounding."""
    if not validate.SMALLEST_NORM <= value <= validate.LARGEST_NORM:
        raise ValueError(f"{name} must be in [2^-100, 2^100], got {value!r}")
    return _core.exact_grid(value, clip_norm)[0]
