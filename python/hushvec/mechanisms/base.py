"""Base classes of mechanisms, and of those for vectors. `hushvec.mechanisms` describes the setting."""

from __future__ import annotations

import hashlib
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core, arrays, kernels
from hushvec._native.arrays import CheckedRows, returned, shared
from hushvec._native.kernels import require_generator
from hushvec._native.rowwise import checked_rows
from hushvec._util import validate
from hushvec._util.rounding import product_up, root_up, rounded_up
from hushvec._util.statistics import norm_sf
from hushvec.accounting import ApproximateDP, PrivacyLoss, PureDP
from hushvec.mechanisms.laws import Rows, Table
from hushvec.noise.fills import clip

if TYPE_CHECKING:
    from typing_extensions import Self

ADJACENCY = "replace-one"

# What `describe` prints of a computed cost: this many digits, rounded up, at these Renyi orders.
_COST_DIGITS = 4
_ORDERS = (2, 8, 32)

_KEY_BYTES = 32

# The sum over a normal law: the trapezoid rule on it is right to many digits with these.
_TAIL, _STEP = 9.0, 2.0**-6

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
    # Whether it costs a delta > 0, which it takes as an argument.
    takes_delta: ClassVar[bool] = False
    # Whether it is made for a noise and not for a price: then it is no choice where a price is given.
    takes_sigma: ClassVar[bool] = False
    # Whether each row of a job can have a key of its own: `release_keyed`.
    in_jobs: ClassVar[bool] = False
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

    def clipped(self, x: Any) -> Any:
        """Return the rows of x, floats, as the noise is added to them: longer ones scaled down to clip_norm."""
        return clip(x, self.clip_norm)

    def repeated(self, rows: int) -> Mechanism:
        """Return the mechanism of so many rows of one person, each with the noise of a single row of this one."""
        return replace(self, epsilon=product_up(rows, self.cost[0]), rows_per_person=rows)  # type: ignore[call-arg]

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

    def require_other_rows(self, x: Any, *, first_row: int = 0) -> None:  # noqa: B027  (most were made from no rows)
        """Raise ValueError if x holds a row that the mechanism was made from. Errors count from `first_row`."""

    def further_parameters(self) -> dict[str, str]:
        """Return what the keys of a job's rows depend on beside cost, size, clip and noise: docs/format.md section 10."""
        return {}

    def release_keyed(self, x: Any, out: Any, keys: RowKeys, *, half_words: bool) -> None:
        """Release each row of x [n, d] in `out` from a key of its own: docs/format.md section 10. Only if `in_jobs`."""
        raise ValueError(f"mechanism must be one of jobs, got {self.name!r}")

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


class RowKeys(NamedTuple):
    """The keys of a job's rows: docs/format.md section 10."""

    key: bytes
    places: NDArray[np.uint8]  # [n, 40]
    cipher: str

    def of_row(self, row: int, content: bytes) -> _core.Generator:
        """Return the key stream of one row with these bytes, where it is not made in the core."""
        key = hashlib.blake2b(self.places[row].tobytes() + content, key=self.key, digest_size=_KEY_BYTES).digest()
        # nonce 0: the key belongs to one row, and is not a seed
        return _core.Generator.unsafe_seeded(int.from_bytes(key, "little"), cipher=self.cipher)


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
    law_names: ClassVar[tuple[str, ...]]  # these and that one
    stated_names: ClassVar[tuple[str, ...]]  # of what a receipt states of it, under the same names
    # The density of an element's noise at its top, where `noise_parameter` is 1. A class with another law has none of its parent's.
    density_top: ClassVar[float | None] = None
    # Whether the noise is large enough for values of eight bits: then it has `int8_grid` and `saturation_on`.
    has_int8: ClassVar[bool] = False

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "law" in vars(cls) and "density_top" not in vars(cls):
            cls.density_top = None
        if hasattr(cls, "parameter_name"):
            cls.law_names = cls.parameter_name, *cls.further_numbers
            price = ("epsilon", "delta") if cls.takes_delta else ("epsilon",)
            cls.stated_names = ("dimension", "clip_norm", *price, *cls.law_names)

    @property
    def noise_parameter(self) -> float:
        """sigma or scale, as used: a float32, or a float64 for whole numbers."""
        return float(getattr(self, self.parameter_name))

    @classmethod
    def for_price(cls, *, epsilon: float, delta: float, corpus_size: int | None = None, **setting: Any) -> VectorMechanism:
        """Return the mechanism that costs (epsilon, delta), or (epsilon, 0) if it takes no delta.

        Args:
            corpus_size: among how many other rows a release will be looked up; for those that can be made for that.
            setting: the other arguments of the class.
        """
        price: dict[str, Any] = {"epsilon": epsilon, "delta": delta} if cls.takes_delta else {"epsilon": epsilon}
        return cls(**price, **setting)

    @classmethod
    def from_arguments(cls, *, epsilon: float | None, delta: float, sigma: float | None, **setting: Any) -> VectorMechanism:
        """Return the mechanism for the arguments of `hushvec.privatize`, checked; `setting` are those of the base class."""
        if sigma is not None:
            raise ValueError(f"sigma must be None for mechanism {cls.name!r}, which needs none ('empirical' does), got {sigma!r}")
        if not cls.takes_delta:
            validate.delta(delta, zero_allowed=True)  # and is not used
        price = cls._needed("epsilon", epsilon)
        return cls.for_price(epsilon=price, delta=validate.delta(delta, zero_allowed=not cls.takes_delta), **setting)

    @classmethod
    def _needed(cls, name: str, value: float | None) -> float:
        if value is None:
            raise TypeError(f"{name} must be given for mechanism {cls.name!r}")
        return validate.positive(name, value)

    @property
    def law_numbers(self) -> dict[str, float]:
        """The numbers of its law by their names in receipts."""
        return {name: self.noise_parameter if name == self.parameter_name else getattr(self, name) for name in self.law_names}

    def further_parameters(self) -> dict[str, str]:
        return {name: getattr(self, name).hex() for name in self.further_numbers}

    @property
    @abstractmethod
    def noise_norm(self) -> float:
        """Root mean square of the L2 norm of one row's noise."""

    @property
    def element_variance(self) -> float:
        """Variance of one element of a released row about its mean."""
        return self.noise_norm**2 / self.dimension

    @property
    def row_loss(self) -> PrivacyLoss | None:
        """The loss of one row, if the rows of a person are released each by itself and it says more than epsilon; else None."""
        return None

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
            numbers: those of `stated_names`, rows_per_person and released_grid.
        """
        made = object.__new__(cls)
        vars(made).update(numbers)
        return made

    @cached_property
    def released_grid(self) -> float | None:
        """The power of two that the values of a release are multiples of: `grid`, or what a receipt states."""
        return self.grid

    def claim_faults(self) -> list[str]:
        """Return why epsilon and delta do not follow from the noise, for a mechanism made by `stated`; empty if they do.

        Here for pure epsilon = sensitivity / `noise_parameter`, compared in exact arithmetic.
        """
        size, name = self.noise_parameter, self.parameter_name
        square = _squared_sensitivity_of(type(self), self.clip_norm, self.rows_per_person, self.dimension)
        if (Fraction(size) * Fraction(self.epsilon)) ** 2 >= square:
            return []
        return [
            f"{name} = {size!r} at {self.sensitivity_norm.upper()} sensitivity {self.sensitivity!r} gives "
            f"epsilon = {self.sensitivity / size:.6g}, more than the {self.epsilon!r} stated"
        ]

    def parameter_faults(self, grade: str, *, int8: bool, half_words: bool) -> list[str]:
        """Return why `noise_parameter` and `released_grid` are none of a release of this grade, for one made by `stated`."""
        if int8 and not self.has_int8:
            return []  # said elsewhere
        name, size = self.parameter_name, self.noise_parameter
        try:
            grid = self.int8_grid if int8 else self._grid_of(half_words)
        except ValueError as error:
            return [str(error)]
        if float(np.float32(size)) != size:
            return [f"{name} must be a float32, got {size!r}"]
        expected = grid if grade == "exact" else None
        if self.released_grid != expected:
            form = "int8 values" if int8 else "grade"
            law = "threshold" if int8 and self.directions_only else "clip_norm"
            return [f"grid must be {expected!r} for this {name}, {law} and {form}, got {self.released_grid!r}"]
        return []

    def saturation_on(self, grid: float) -> float:
        """Return a bound on the expected share of a clipped row's int8 values on this grid that saturate."""
        raise NotImplementedError

    @property
    def int8_saturation(self) -> float:
        return min(1.0, rounded_up(self.saturation_on(self.int8_grid), _COST_DIGITS))  # rounded up by far more than its roundings

    def log_density_excess(self) -> float:
        """Return ln of how far the density of all rows of a person exceeds the product of the tops of their elements."""
        return 0.0

    def top_1_probability(self, others: int) -> float:
        """Return about the probability that a release is nearer to its own row than to each of so many orthogonal ones.

        Its score is N(s, 1), theirs are N(0, 1). Real vectors have near neighbors, which rank higher.
        """
        signal = self.clip_norm * math.sqrt(self.dimension) / self.noise_norm
        noise = [-_TAIL + step * _STEP for step in range(round(2 * _TAIL / _STEP) + 1)]
        wins = (norm_sf(-(signal + value)) ** others for value in noise)
        return math.fsum(win * math.exp(-value * value / 2) for win, value in zip(wins, noise)) * _STEP / math.sqrt(2 * math.pi)

    def candidate_densities(self, rows: Rows, candidates: Rows, *, rho: float, spread: float) -> NDArray[Any]:
        """Return `log_densities` where the clean row is only near a candidate: rho times it, with a normal spread around.

        Args:
            rows, candidates: float32 [m, d] and [c, d].
            spread: variance of an element of the clean row. Left out here, as it is far below the noise at any epsilon of interest.

        Returns:
            [m, c].
        """
        return self.log_densities(rows, candidates * np.float32(rho)).astype(np.float32)

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
        return self._grid_of(half_words) if self.grade == "exact" else None

    def _grid_of(self, half_words: bool) -> float:
        """The grid, whether the mechanism has a grade that needs one or not."""
        return _core.exact_grid(self.noise_parameter, self.clip_norm, half_words)[1]

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


@lru_cache(maxsize=1024)  # each release and receipt asks, and exact arithmetic takes longer than the noise of a row
def _squared_sensitivity_of(mechanism: type[VectorMechanism], clip_norm: float, rows_per_person: int, dimension: int) -> Fraction:
    return mechanism._squared_sensitivity(2 * Fraction(clip_norm), rows_per_person, dimension)


@lru_cache(maxsize=1024)
def sensitivity_of(mechanism: type[VectorMechanism], clip_norm: float, rows_per_person: int, dimension: int) -> float:
    """The sensitivity column of the table in hushvec.mechanisms, rounded up to a double."""
    return root_up(_squared_sensitivity_of(mechanism, clip_norm, rows_per_person, dimension))


def result_of(values: NDArray[Any], x: Any, out: Any) -> Any:
    """Return values, a numpy array of x's shape, as a release of x: written to `out`, or to a new array of x's kind and dtype."""
    out = arrays.empty_like(x) if out is None else out
    if arrays.is_torch(out):
        out.copy_(sys.modules["torch"].from_numpy(values))
    else:
        out[...] = values
    return out


def _stated(cost: float) -> str:
    """A computed cost in few digits, never smaller than it is."""
    return f"{rounded_up(cost, _COST_DIGITS):g}"


def as_used(name: str, value: float, clip_norm: float) -> float:
    """sigma or scale as the core takes it: rounded up to float32, in the range of exact rounding."""
    if not validate.SMALLEST_NORM <= value <= validate.LARGEST_NORM:
        raise ValueError(f"{name} must be in [2^-100, 2^100], got {value!r}")
    return _core.exact_grid(value, clip_norm)[0]
