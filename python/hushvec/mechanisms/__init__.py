"""Mechanisms: from a privacy parameter to noise, with the cost and the expected harm known before anything is spent.

Setting of all guarantees. Each person contributes `rows_per_person` rows of `dimension` elements. Adjacency is replace-one: two
neighboring inputs differ in all rows of one person, and in nothing else. Every row is clipped to clip_norm = C, so one row
moves by at most 2C in L2. With r = rows_per_person and d = dimension:

    mechanism    noise of an element or a row      sensitivity           guarantee
    Gaussian     N(0, sigma^2) an element          L2: 2C sqrt(r)        delta(epsilon) of Balle and Wang 2018, theorem 8
    Laplacian    Laplace(scale) an element         L1: 2C r sqrt(d)      epsilon = sensitivity / scale
    L2Laplace    exp(-|z|_2 / scale) a row         sum of L2: 2C r       epsilon = sensitivity / scale

    DiscreteGaussian   ~ exp(-k^2 / 2 sigma^2)     L2: 2C sqrt(r)        delta(epsilon) of hushvec.accounting.DiscreteGaussianDP
    DiscreteLaplacian  ~ exp(-|k| / scale)         L1: 2C r              epsilon = sensitivity / scale
    PrivUnit     on the direction of a row         does not enter        epsilon = r |logit p + logit q|, in privunit.py

The discrete kinds are of whole numbers; DiscreteLaplacian clips in the L1 norm, all others in the L2 norm.

The r rows of a person are released jointly: their Gaussian noise is one Gaussian vector and their distance at most
sqrt(sum (2C)^2). For the two Laplace kinds the log-densities of r rows add up, each at most (row distance) / scale, and the row's L1
distance is at most sqrt(d) times its L2 distance.

The sensitivities are rounded up where the formula has a square root, sigma and scale to the next float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeGuard

from hushvec._util import validate
from hushvec._util.lazy import at_first_use
from hushvec._util.rounding import product_up, quotient_down, root_up, rounded_up
from hushvec.mechanisms.additive import AdditiveNoise, EmpiricalGaussian, Gaussian, L2Laplace, Laplacian
from hushvec.mechanisms.base import ADJACENCY, Mechanism, VectorMechanism, sensitivity_of
from hushvec.mechanisms.discrete import DiscreteGaussian, DiscreteLaplacian
from hushvec.mechanisms.privunit import PrivUnit, top_1_probability

# Imported at first use: `import hushvec` needs none of them, and they would make it take a fifth longer.
with at_first_use(globals()):
    from hushvec.mechanisms.codebook import CodebookFit, CodebookResponse, PublicCodebook, found_share
    from hushvec.mechanisms.metric import MetricEpsilon, MetricLaplace
    from hushvec.mechanisms.projection import ProjectionFit, PublicProjection
    from hushvec.mechanisms.public_arrays import load_npz, nearest_codes, save_npz, unit_public_rows
    from hushvec.mechanisms.randomized_response import FrequencyEstimate, RandomizedResponse
    from hushvec.mechanisms.top_1 import top_1_bound, top_1_sentence
    from hushvec.mechanisms.top_k import GumbelTopK

__all__ = [
    "ADJACENCY", "INTEGER_MECHANISMS", "MECHANISMS", "CodebookFit", "CodebookResponse", "DiscreteGaussian", "DiscreteLaplacian",
    "EmpiricalGaussian", "FrequencyEstimate", "Gaussian", "GumbelTopK", "L2Laplace", "Laplacian", "Mechanism", "MetricEpsilon",
    "MetricLaplace", "PrivUnit", "ProjectionFit", "PublicCodebook", "PublicProjection", "RandomizedResponse", "VectorMechanism",
    "answers_with_codes", "found_share", "known_mechanisms", "load_npz", "nearest_codes", "priced_mechanisms", "product_up",
    "quotient_down", "register", "registered", "releases_directions", "root_up", "rounded_up", "save_npz", "sensitivity",
    "takes_integers", "top_1_bound", "top_1_probability", "top_1_sentence", "unit_public_rows",
]

# Those that `privatize` knows by name: for rows of floats, and for rows of whole numbers. `register` adds to them.
MECHANISMS: dict[str, type[VectorMechanism]] = {}
INTEGER_MECHANISMS: dict[str, type[VectorMechanism]] = {}
_known: dict[str, type[VectorMechanism]] = {}  # both, which every release and receipt asks for


def known_mechanisms() -> Mapping[str, type[VectorMechanism]]:
    """Return all mechanisms that `privatize` knows, by name, those of floats first."""
    return _known


def register(mechanism: type[VectorMechanism]) -> type[VectorMechanism]:
    """Make a mechanism known by its name: to `privatize`, receipts, audits, attacks, `recommend`, `rewrite` and the command line.

    Args:
        mechanism: a subclass of `VectorMechanism`; docs/extend.md says what it declares, `hushvec.extend.check_mechanism` tries it.

    Returns:
        The class, so that this may stand above it as a decorator.

    Raises:
        TypeError: not such a class, or one that lacks a method.
        ValueError: another mechanism has the name.
    """
    if not (isinstance(mechanism, type) and issubclass(mechanism, VectorMechanism)):
        raise TypeError(f"mechanism must be a subclass of VectorMechanism, got {validate.kind(mechanism)}")
    if missing := sorted(getattr(mechanism, "__abstractmethods__", ())):
        raise TypeError(f"mechanism must define {', '.join(missing)}, got {mechanism.__name__} without")
    if known_mechanisms().get(mechanism.name, mechanism) is not mechanism:
        raise ValueError(f"mechanism must have a name of its own, got {mechanism.name!r}, which is known")
    (INTEGER_MECHANISMS if mechanism.integers else MECHANISMS)[mechanism.name] = mechanism
    _known.clear()
    _known.update(MECHANISMS | INTEGER_MECHANISMS)
    return mechanism


@contextmanager
def registered(mechanism: type[VectorMechanism]) -> Iterator[type[VectorMechanism]]:
    """Make a mechanism known within a `with` block, as `register` does for good; for tests."""
    register(mechanism)
    try:
        yield mechanism
    finally:
        for names in (MECHANISMS, INTEGER_MECHANISMS, _known):
            names.pop(mechanism.name, None)


for _mechanism in (Gaussian, Laplacian, L2Laplace, EmpiricalGaussian, PrivUnit, DiscreteGaussian, DiscreteLaplacian):
    register(_mechanism)


def priced_mechanisms(*, exact: bool = False) -> dict[str, type[VectorMechanism]]:
    """Return those for rows of floats that are made for a price, by name, directions first; `exact`: of that grade alone."""
    priced = (kind for kind in MECHANISMS.values() if not kind.takes_sigma and (kind.grade == "exact" or not exact))
    return {kind.name: kind for kind in sorted(priced, key=lambda kind: not kind.directions_only)}


def answers_with_codes(mechanism: object) -> TypeGuard[CodebookResponse]:
    """Whether a mechanism releases rows of a public table, and no noisy vectors; False for anything else."""
    return isinstance(mechanism, Mechanism) and not isinstance(mechanism, VectorMechanism)


def sensitivity(mechanism: str, *, clip_norm: float, rows_per_person: int, dimension: int) -> float:
    """The sensitivity column of the table above, for a mechanism by name; rounded up to a double."""
    known = known_mechanisms()
    kind = known[validate.choice("mechanism", mechanism, known)]
    return sensitivity_of(kind, clip_norm, rows_per_person, dimension)


def element_variance(mechanism: str, dimension: int) -> int:
    """Variance of the additive noise of one element, in units of sigma^2 or scale^2."""
    additive = {name: kind for name, kind in MECHANISMS.items() if issubclass(kind, AdditiveNoise)}
    return additive[validate.choice("mechanism", mechanism, additive)]._element_variance(dimension)


def takes_integers(mechanism: object) -> bool:
    """Whether rows are whole numbers, for a mechanism or its name; False for anything else."""
    return mechanism in INTEGER_MECHANISMS if isinstance(mechanism, str) else isinstance(mechanism, Mechanism) and mechanism.integers


def releases_directions(mechanism: object) -> bool:
    """Whether the length of a row has no influence on its release, for a mechanism or its name; False for anything else."""
    if isinstance(mechanism, str):
        return mechanism in MECHANISMS and MECHANISMS[mechanism].directions_only
    return isinstance(mechanism, Mechanism) and mechanism.directions_only
