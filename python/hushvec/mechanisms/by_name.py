"""The mechanisms that `privatize` knows by name, and what follows from a name alone."""

from __future__ import annotations

from hushvec._util import validate
from hushvec.mechanisms.additive import AdditiveNoise, EmpiricalGaussian, Gaussian, L2Laplace, Laplacian
from hushvec.mechanisms.base import Mechanism, VectorMechanism, sensitivity_of
from hushvec.mechanisms.privunit import PrivUnit

_ADDITIVE: dict[str, type[AdditiveNoise]] = {
    mechanism.name: mechanism for mechanism in (Gaussian, Laplacian, L2Laplace, EmpiricalGaussian)
}
MECHANISMS: dict[str, type[VectorMechanism]] = {**_ADDITIVE, PrivUnit.name: PrivUnit}


def sensitivity(mechanism: str, *, clip_norm: float, rows_per_person: int, dimension: int) -> float:
    """The sensitivity column of the table in hushvec.mechanisms, for a mechanism by name; rounded up to a double."""
    kind = MECHANISMS[validate.choice("mechanism", mechanism, MECHANISMS)]
    return sensitivity_of(kind, clip_norm, rows_per_person, dimension)


def element_variance(mechanism: str, dimension: int) -> int:
    """Variance of the additive noise of one element, in units of sigma^2 or scale^2."""
    return _ADDITIVE[validate.choice("mechanism", mechanism, _ADDITIVE)]._element_variance(dimension)


def releases_directions(mechanism: object) -> bool:
    """Whether the length of a row has no influence on its release, for a mechanism or its name; False for anything else."""
    if isinstance(mechanism, str):
        return mechanism in MECHANISMS and MECHANISMS[mechanism].directions_only
    return isinstance(mechanism, Mechanism) and mechanism.directions_only
