"""The mechanisms that are compared, by the name they have in tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hushvec.mechanisms import EmpiricalGaussian, Gaussian, L2Laplace, Laplacian, PrivUnit, VectorMechanism
from hushvec.noise.calibration import gaussian_sigma

EMPIRICAL = "empirical"
CLASSICAL = "gaussian (classical)"
PRIVUNIT = "privunit"
PRIVUNIT_CORPUS = "privunit (corpus_size)"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a mechanism is made for.

    Args:
        epsilon: asked for; None for "empirical".
        sigma: chosen; None for all others.
        delta: for the Gaussian kinds.
        dimension: of the rows behind the public map.
        others: n, among how many other rows the right one is to be found.
    """

    epsilon: float | None
    sigma: float | None
    delta: float
    dimension: int
    others: int

    @property
    def asked(self) -> float:
        assert self.epsilon is not None
        return self.epsilon


def _classical(setting: Setting) -> VectorMechanism:
    """Gaussian noise of the published formula, with the epsilon that it really buys."""
    sigma = float(gaussian_sigma(setting.asked, setting.delta, 2.0, method="classical", allow_unproven=True))
    return EmpiricalGaussian(chosen_sigma=sigma, delta=setting.delta, dimension=setting.dimension)


def _empirical(setting: Setting) -> VectorMechanism:
    assert setting.sigma is not None
    return EmpiricalGaussian(chosen_sigma=setting.sigma, delta=setting.delta, dimension=setting.dimension)


_BUILDERS: dict[str, Callable[[Setting], VectorMechanism]] = {
    PRIVUNIT: lambda setting: PrivUnit(epsilon=setting.asked, dimension=setting.dimension),
    PRIVUNIT_CORPUS: lambda setting: PrivUnit(epsilon=setting.asked, dimension=setting.dimension, corpus_size=setting.others),
    "gaussian": lambda setting: Gaussian(epsilon=setting.asked, delta=setting.delta, dimension=setting.dimension),
    CLASSICAL: _classical,
    "laplacian": lambda setting: Laplacian(epsilon=setting.asked, dimension=setting.dimension),
    "l2_laplace": lambda setting: L2Laplace(epsilon=setting.asked, dimension=setting.dimension),
    EMPIRICAL: _empirical,
}

# Those that are asked for an epsilon.
LDP = tuple(name for name in _BUILDERS if name != EMPIRICAL)


def mechanism_for(name: str, setting: Setting) -> VectorMechanism:
    """The mechanism of that name, for unit rows (clip_norm 1) and one row a person."""
    return _BUILDERS[name](setting)
