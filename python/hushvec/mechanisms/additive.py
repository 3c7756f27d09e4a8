"""Additive noise on clipped rows: Gaussian, Laplace, L2-Laplace. `hushvec.mechanisms` describes the setting."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from hushvec._native import _core, kernels
from hushvec._native.arrays import CheckedRows, checked_rows
from hushvec._native.generators import require_generator
from hushvec._util import validate
from hushvec._util.rounding import quotient_down, root_up, rounded_up
from hushvec.noise.calibration import gaussian_epsilon, gaussian_sigma, laplace_scale

if TYPE_CHECKING:
    from hushvec.accounting import GaussianDP, PrivacyLoss

ADJACENCY = "replace-one"

# epsilon that was computed, not asked for, is stated to this many digits, rounded up.
EPSILON_DIGITS = 10

# What `describe` prints of a computed cost: this many digits, rounded up, at these Renyi orders.
_COST_DIGITS = 4
_ORDERS = (2, 8, 32)

_GRADES = {
    "exact": "grade exact: the released bits carry the claim",
    "float": "grade float: computed in floating point; the costs are those of real arithmetic, and no claim is made",
}


@dataclass(frozen=True, kw_only=True)
class Mechanism(ABC):
    """What all mechanisms share. See hushvec.mechanisms for the setting.

    Args:
        dimension: d, elements in a row.
        clip_norm: C, the L2 norm that every row is clipped to.
        rows_per_person: r, how many rows one person contributes; public.
    """

    name: ClassVar[str]
    law: ClassVar[str]
    grade: ClassVar[str]
    adjacency: ClassVar[str] = ADJACENCY

    dimension: int
    clip_norm: float = 1.0
    rows_per_person: int = 1

    def __post_init__(self) -> None:
        self._keep("dimension", validate.whole_number("dimension", self.dimension, at_least=1))
        self._keep("clip_norm", validate.clip_norm(self.clip_norm))
        self._keep("rows_per_person", validate.whole_number("rows_per_person", self.rows_per_person, at_least=1))

    def _keep(self, name: str, value: float) -> None:
        """The checked form of an argument in its place: 8 and numpy's 8 are the float 8.0 in receipts, jobs and files alike."""
        object.__setattr__(self, name, value)

    @property
    @abstractmethod
    def cost(self) -> tuple[float, float]:
        """(epsilon, delta) that one release costs each person in it."""

    @property
    def loss(self) -> PrivacyLoss:
        """The privacy loss of one release, for `hushvec.accounting`: the cost in every other currency.

        What follows from `cost` alone; mechanisms whose whole profile is known say more. It is the loss of the mechanism over the
        reals: for grade "exact" the released bits have it too, for grade "float" nothing is claimed about them.
        """
        from hushvec.accounting import ApproximateDP, PureDP

        epsilon, delta = self.cost
        if delta > 0:
            return ApproximateDP(epsilon=epsilon, delta=delta, adjacency=self.adjacency)
        return PureDP(epsilon=epsilon, adjacency=self.adjacency)

    @abstractmethod
    def expected_cosine(self, norm: float | None = None) -> float:
        """About the cosine between a row and its release.

        Args:
            norm: L2 norm of the clipped row; clip_norm if None.
        """

    @abstractmethod
    def describe(self) -> tuple[str, ...]:
        """Lines that say what a release costs and what it leaves of a row, before anything is spent."""

    def require_release(self, x: Any) -> None:
        """Raise whatever would keep a release of x, an array or `CheckedRows`, from being computed, short of NaN and Inf.

        What is charged for must happen.
        """
        rows = x if isinstance(x, CheckedRows) else checked_rows("x", x, finite=False)
        if rows.on_cuda:
            kernels.require_release(rows.values, self.law)

    def apply(self, x: Any, out: Any, generator: _core.Generator, *, out_is_fresh: bool = False) -> Any:
        """The release of x, exactly rounded where the grade is exact: in `out`, or in a new array if that is None. Returns it.

        x may be out. Nothing is written where x is refused, unless `out_is_fresh` says that nobody else can see `out` yet: then
        part of the result may be in it (on CUDA all of it always is), and x is read once and not twice.
        """
        return self._release(x, out, require_generator(generator), out_is_fresh)

    @abstractmethod
    def _release(self, x: Any, out: Any, source: _core.Generator, out_is_fresh: bool) -> Any:
        """`apply`, with its generator checked."""


class VectorMechanism(Mechanism):
    """Mechanisms whose releases are noisy vectors: noise of one size, on a grid where the grade is exact."""

    sensitivity_norm: ClassVar[str]

    @property
    @abstractmethod
    def noise_parameter(self) -> float:
        """sigma or scale, as used: a float32."""

    @property
    @abstractmethod
    def noise_norm(self) -> float:
        """Root mean square of the L2 norm of one row's noise."""

    @property
    def sensitivity(self) -> float:
        """How far the clipped data of one person can move, in the norm that `sensitivity_norm` names."""
        return sensitivity(self.name, clip_norm=self.clip_norm, rows_per_person=self.rows_per_person, dimension=self.dimension)

    @property
    def grid(self) -> float | None:
        """The power of two that exact values are multiples of; None for the float grade."""
        return _core.exact_grid(self.noise_parameter, self.clip_norm)[1] if self.grade == "exact" else None

    def expected_cosine(self, norm: float | None = None) -> float:
        """About the cosine between a row and its noisy version: norm / sqrt(norm^2 + noise_norm^2).

        Args:
            norm: L2 norm of the clipped row; clip_norm if None.
        """
        signal = self.clip_norm if norm is None else validate.positive("norm", norm)
        return signal / math.hypot(signal, self.noise_norm)

    def describe(self) -> tuple[str, ...]:
        """Lines that say what a release costs in every currency and what it leaves of a row, before anything is spent."""
        epsilon, delta = self.cost
        loss = self.loss
        renyi = ", ".join(f"{_stated(loss.rdp(order))} (order {order})" for order in _ORDERS)
        rows = f", {self.rows_per_person:,} rows per person" if self.rows_per_person > 1 else ""
        return (
            f"{self.name}, dimension {self.dimension}, clip norm {self.clip_norm:g}{rows}",
            self._parameters(),
            f"one release costs epsilon = {epsilon!r}, delta = {delta!r}",
            f"or rho = {_stated(loss.rho)} (zero-concentrated), or in Renyi DP {renyi}",
            f"noise norm {self.noise_norm:.4g}, expected cosine {self.expected_cosine():.4f} for a row of length {self.clip_norm:g}",
            _GRADES[self.grade],
        )

    def _parameters(self) -> str:
        """The line of `describe` about what the noise is made for, and how large it is."""
        name = "sigma" if self.law == "gaussian" else "scale"
        norm = f"{self.sensitivity_norm.upper()}, {self.adjacency}"
        return f"sensitivity {self.sensitivity:.6g} ({norm}), {name} {self.noise_parameter:.6g}"

    def _release(self, x: Any, out: Any, source: _core.Generator, out_is_fresh: bool) -> Any:
        exact = self.grade == "exact"
        return kernels.clip_and_noise(x, self.clip_norm, self.noise_parameter, out, source, self.law, exact, out_is_fresh=out_is_fresh)


class _GaussianNoise(VectorMechanism):
    law = "gaussian"
    grade = "exact"
    sensitivity_norm = "l2"

    @property
    @abstractmethod
    def sigma(self) -> float:
        """As used: a float32."""

    @property
    def noise_parameter(self) -> float:
        return self.sigma

    @property
    def loss(self) -> GaussianDP:
        """`GaussianDP` of sigma / sensitivity, the quotient rounded down. The whole profile, not one point of it."""
        from hushvec.accounting import GaussianDP

        return GaussianDP(noise_multiplier=quotient_down(self.noise_parameter, self.sensitivity), adjacency=self.adjacency)

    @property
    def noise_norm(self) -> float:
        return self.noise_parameter * math.sqrt(self.dimension)


@dataclass(frozen=True, kw_only=True)
class Gaussian(_GaussianNoise):
    """The Gaussian mechanism, analytically calibrated: the smallest sigma that gives (epsilon, delta).

    Args:
        epsilon: > 0.
        delta: in (0, 1).
        dimension: d; as in `Mechanism`, like clip_norm and rows_per_person.

    Guarantees:
        (epsilon, delta)-DP under replace-one of one person's rows, exact in real arithmetic and as released.

    Reference:
        Balle and Wang, "Improving the Gaussian mechanism for differential privacy" (2018), theorem 8.

    Example:
        >>> from hushvec.mechanisms import Gaussian
        >>> mechanism = Gaussian(epsilon=1.0, delta=1e-5, dimension=384)
        >>> round(mechanism.sigma, 2), mechanism.sensitivity, mechanism.cost
        (7.46, 2.0, (1.0, 1e-05))
    """

    name = "gaussian"
    epsilon: float
    delta: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        self._keep("epsilon", validate.positive("epsilon", self.epsilon))
        self._keep("delta", validate.delta(self.delta))

    @cached_property
    def sigma(self) -> float:
        return as_used("sigma", float(gaussian_sigma(self.epsilon, self.delta, self.sensitivity)), self.clip_norm)

    @property
    def cost(self) -> tuple[float, float]:
        return self.epsilon, self.delta


@dataclass(frozen=True, kw_only=True)
class EmpiricalGaussian(_GaussianNoise):
    """Gaussian noise of a sigma chosen by the caller, and what it buys: epsilon at the given delta.

    Args:
        chosen_sigma: the caller's sigma; rounded up to float32 for use.
        delta: in (0, 1).
        dimension: d; as in `Mechanism`, like clip_norm and rows_per_person.

    Guarantees:
        (epsilon, delta)-DP for the computed epsilon, which is rounded up to ten digits. The guarantee is as formal as that of
        `Gaussian`, but usually weak: sigma = 0.2 on unit vectors is epsilon = 91.8.

    Reference:
        Balle and Wang (2018), theorem 8, solved for epsilon.

    Example:
        >>> from hushvec.mechanisms import EmpiricalGaussian
        >>> round(EmpiricalGaussian(chosen_sigma=0.2, delta=1e-5, dimension=1920).epsilon, 1)
        91.8
    """

    name = "empirical"
    chosen_sigma: float
    delta: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        self._keep("chosen_sigma", validate.positive("sigma", self.chosen_sigma))
        self._keep("delta", validate.delta(self.delta))

    @cached_property
    def sigma(self) -> float:
        return as_used("sigma", float(self.chosen_sigma), self.clip_norm)

    @cached_property
    def epsilon(self) -> float:
        epsilon = float(gaussian_epsilon(self.delta, self.sigma, self.sensitivity))
        if not math.isfinite(epsilon):
            raise ValueError(f"sigma must be large enough for a finite epsilon, got {self.chosen_sigma!r}")
        return rounded_up(epsilon, EPSILON_DIGITS)

    @property
    def cost(self) -> tuple[float, float]:
        return self.epsilon, self.delta


@dataclass(frozen=True, kw_only=True)
class _LaplaceNoise(VectorMechanism):
    epsilon: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self._keep("epsilon", validate.positive("epsilon", self.epsilon))

    @cached_property
    def scale(self) -> float:
        return as_used("scale", float(laplace_scale(self.epsilon, self.sensitivity)), self.clip_norm)

    @property
    def noise_parameter(self) -> float:
        return self.scale

    @property
    def cost(self) -> tuple[float, float]:
        return self.epsilon, 0.0


@dataclass(frozen=True, kw_only=True)
class Laplacian(_LaplaceNoise):
    """Independent Laplace noise on every element: pure epsilon-DP.

    Args:
        epsilon: > 0.
        dimension: d; as in `Mechanism`, like clip_norm and rows_per_person.

    Guarantees:
        (epsilon, 0)-DP under replace-one of one person's rows, exact in real arithmetic and as released. The L2 clip bounds
        the L1 distance by sqrt(d) times 2C only, so scale = 2C sqrt(d) / epsilon; without the sqrt(d) it would be
        (sqrt(d) epsilon)-DP.

    Reference:
        Dwork, McSherry, Nissim, Smith, "Calibrating noise to sensitivity in private data analysis" (2006), proposition 1.

    Example:
        >>> from hushvec.mechanisms import Laplacian
        >>> Laplacian(epsilon=8.0, dimension=256).scale
        4.0
    """

    name = "laplacian"
    law = "laplacian"
    grade = "exact"
    sensitivity_norm = "l1"

    @property
    def noise_norm(self) -> float:
        return self.scale * math.sqrt(2 * self.dimension)


@dataclass(frozen=True, kw_only=True)
class L2Laplace(_LaplaceNoise):
    """A uniform direction with a Gamma(d, scale) length on every row: pure epsilon-DP from the L2 sensitivity.

    Args:
        epsilon: > 0.
        dimension: d; as in `Mechanism`, like clip_norm and rows_per_person.

    Guarantees:
        In real arithmetic (epsilon, 0)-DP under replace-one of one person's rows, with about sqrt(2) less noise than
        `Laplacian`. It is computed in floating point (grade "float"), so what is released carries no DP claim.

    Reference:
        Chaudhuri, Monteleoni, Sarwate, "Differentially private empirical risk minimization" (2011), section 3.2.

    Example:
        >>> from hushvec.mechanisms import L2Laplace
        >>> L2Laplace(epsilon=8.0, dimension=256).scale
        0.25
    """

    name = "l2_laplace"
    law = "l2_laplace"
    grade = "float"
    sensitivity_norm = "l2"

    @property
    def noise_norm(self) -> float:
        return self.scale * math.sqrt(self.dimension * (self.dimension + 1))


ADDITIVE: dict[str, type[VectorMechanism]] = {
    mechanism.name: mechanism for mechanism in (Gaussian, Laplacian, L2Laplace, EmpiricalGaussian)
}


@lru_cache(maxsize=1024)  # each release asks three times, and exact arithmetic takes longer than the noise of a row
def sensitivity(mechanism: str, *, clip_norm: float, rows_per_person: int, dimension: int) -> float:
    """The sensitivity column of the table in hushvec.mechanisms, for a mechanism by name; rounded up to a double."""
    one_row = 2 * Fraction(clip_norm)
    if mechanism in (Gaussian.name, EmpiricalGaussian.name):
        return root_up(one_row**2 * rows_per_person)
    if mechanism == Laplacian.name:
        return root_up((one_row * rows_per_person) ** 2 * dimension)
    return root_up((one_row * rows_per_person) ** 2)


def _stated(cost: float) -> str:
    """A computed cost in few digits, never smaller than it is."""
    return f"{rounded_up(cost, _COST_DIGITS):g}"


def as_used(name: str, value: float, clip_norm: float) -> float:
    """sigma or scale as the core takes it: rounded up to float32, in the range of exact rounding."""
    if not validate.SMALLEST_NORM <= value <= validate.LARGEST_NORM:
        raise ValueError(f"{name} must be in [2^-100, 2^100], got {value!r}")
    return _core.exact_grid(value, clip_norm)[0]
