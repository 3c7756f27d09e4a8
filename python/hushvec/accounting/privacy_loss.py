"""What all privacy losses share: arguments, delta and epsilon of each other, and the currencies that a loss may lack."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hushvec._util import rounding, validate
from hushvec.accounting.closed_forms import randomized_response_rdp, randomized_response_rho

ADJACENCIES = ("replace-one", "add-remove")

# A field whose name a method of PrivacyLoss has already taken ends in this; the constructor's argument does not.
_BOUND = "_bound"


@cache
def _arguments(kind: type[PrivacyLoss]) -> tuple[tuple[str, str], ...]:
    """The constructor's arguments of a kind of loss, each with the field that holds it."""
    return tuple((field.name.removesuffix(_BOUND), field.name) for field in fields(kind))


@dataclass(frozen=True, kw_only=True, repr=False)
class PrivacyLoss(ABC):
    """What all losses share.

    Args:
        adjacency: "replace-one" or "add-remove"; see the module for what it means.
    """

    name: ClassVar[str]

    adjacency: str = "replace-one"

    def __post_init__(self) -> None:
        validate.choice("adjacency", self.adjacency, ADJACENCIES)

    @property
    def arguments(self) -> dict[str, Any]:
        """The constructor's arguments: ``type(loss)(**loss.arguments) == loss``."""
        return {argument: getattr(self, field) for argument, field in _arguments(type(self))}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.arguments.items())})"

    def delta(self, epsilon: float) -> float:
        """The smallest delta known for which a release is (epsilon, delta)-DP, rounded up; epsilon >= 0 and finite."""
        return min(1.0, self._delta(validate.not_negative("epsilon", epsilon)))

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon known for which a release is (epsilon, delta)-DP, rounded up.

        Args:
            delta: < 1, and at least `least_delta`: 0 for pure guarantees, above 0 for the rest.

        Raises:
            ValueError: no finite epsilon goes with this delta.
        """
        checked = validate.number("delta", delta)
        rule = self._delta_rule()
        if not (0 <= checked < 1 and self._has_epsilon(checked)):
            raise ValueError(f"delta must be {rule} and < 1 for {type(self).__name__}, got {checked!r}")
        return self._epsilon(checked)

    @property
    def rho(self) -> float:
        """The loss in zero-concentrated DP: every Renyi divergence of order a is at most rho a. math.inf if there is none."""
        return math.inf

    def rdp(self, order: float) -> float:
        """The Renyi divergence bound of an order > 1. math.inf if there is none.

        Raises:
            MissingExtraError: for PoissonSampledGaussianDP, where hushvec[accounting] is not installed.
        """
        checked = validate.number("order", order)
        if checked <= 1:
            raise ValueError(f"order must be > 1, got {checked!r}")
        return float(self.rdp_curve(np.array([checked]))[0])

    def rdp_curve(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """`rdp` of many orders > 1 at once, which are not checked."""
        return np.full(orders.shape, math.inf)

    @abstractmethod
    def _delta(self, epsilon: float) -> float: ...

    def _epsilon(self, delta: float) -> float:
        return rounding.smallest(lambda epsilon: self.delta(epsilon) <= delta, self.pure_epsilon)

    @property
    def pure_epsilon(self) -> float:
        """The epsilon at delta = 0 (for ApproximateDP, at its delta); math.inf if there is none."""
        return math.inf

    @property
    def unamplified(self) -> PrivacyLoss:
        """The loss for any given sample or order: another one than itself where sampling or shuffling lowers it."""
        return self

    @property
    def failure_delta(self) -> float:
        """The probability that the guarantee fails: 0 for all but ApproximateDP."""
        return 0.0

    def _has_epsilon(self, delta: float) -> bool:
        return delta > 0 if self.pure_epsilon == math.inf else delta >= self.failure_delta

    def _delta_rule(self) -> str:
        return "> 0" if self.pure_epsilon == math.inf else f">= {self.failure_delta!r}"

    def _store(self, **fields: Any) -> None:
        """What the constructor of a class does whose arguments are named unlike its fields."""
        self._store_checked(**fields)
        self.__post_init__()

    def _store_checked(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _store_positive(self, *names: str) -> None:
        self._store_checked(**{name: validate.positive(name.removesuffix(_BOUND), getattr(self, name)) for name in names})


@dataclass(frozen=True, kw_only=True, repr=False, init=False)
class OneEpsilonLoss(PrivacyLoss):
    """Losses with a pure epsilon. rho and rdp are those of the worst epsilon-DP mechanism, unless a class knows better."""

    epsilon_bound: float

    def __init__(self, *, epsilon: float, adjacency: str = "replace-one") -> None:
        self._store(epsilon_bound=epsilon, adjacency=adjacency)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._store_positive("epsilon_bound")

    @property
    def pure_epsilon(self) -> float:
        return self.epsilon_bound

    @property
    def rho(self) -> float:
        return randomized_response_rho(self.epsilon_bound)

    def rdp_curve(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        return randomized_response_rdp(self.epsilon_bound, orders)
