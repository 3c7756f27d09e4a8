"""How often the right patient is first, where patients share the same part of their length and nothing else.

What no mechanism exceeds is `hushvec.audit.indexes.bounds.identification_bound`.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hushvec.mechanisms import PrivUnit, VectorMechanism

# Normal laws are summed over this many standard deviations on either side, in steps that make the trapezoid rule exact to many digits.
_TAIL, _STEP = 9.0, 2.0**-6
_LARGEST_SCORE = 10.0
_SCORES = 1 << 13


def expected_top_1(mechanism: VectorMechanism, others: int, own: float = 1.0) -> float:
    """Probability that a release is nearer to its own row than to each of n others.

    Rows are sqrt(1 - s) m + sqrt(s) z_i with m and z_i orthonormal, s = own. Let W be the released row in units of its noise across
    the row's direction. The others' scores differ by <W, z_j>, which are independent N(0, 1). With a = <W, x_i>,

        <W, z_i> = sqrt(s) a + sqrt(1 - s) g,   g ~ N(0, 1) independent of a

    and the answer is E Phi(<W, z_i>)^n. What patients share takes a part of the signal and puts noise in its place.
    a is N(sqrt(d) / noise norm, 1) for additive noise (Laplace kinds: nearly, by the central limit theorem), and
    the law of the component along the row for PrivUnit.

    Args:
        mechanism: for unit rows.
        others: n >= 1.
        own: s in (0, 1].

    Reference:
        hushvec.mechanisms.privunit.top_1_probability is the case s = 1 of PrivUnit in closed form.

    Example:
        >>> from hushvec.mechanisms import PrivUnit
        >>> from hushvec_studies.clinical.theory import expected_top_1
        >>> mechanism = PrivUnit(epsilon=16.0, dimension=1920)
        >>> [round(expected_top_1(mechanism, 999, own), 2) for own in (1.0, 0.5)]
        [0.96, 0.54]
    """
    along, weight = _along_the_row(mechanism)
    scores, below = _normal_law()
    wins = below**others
    if own == 1:
        return float((weight * np.interp(along, scores, wins)).sum() / weight.sum())
    aside = np.arange(-_TAIL, _TAIL + _STEP, 8 * _STEP)
    share = np.exp(-(aside**2) / 2)
    shown = math.sqrt(own) * along[:, None] + math.sqrt(1 - own) * aside
    return float((weight[:, None] * np.interp(shown, scores, wins) * share).sum() / (weight.sum() * share.sum()))


@lru_cache(maxsize=1)
def _normal_law() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scores and Phi of them; beyond their ends Phi is 0 or 1."""
    scores = np.linspace(-_LARGEST_SCORE, _LARGEST_SCORE, _SCORES)
    return scores, np.array([0.5 * math.erfc(-score / math.sqrt(2)) for score in scores])


def _along_the_row(mechanism: VectorMechanism) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values of a and their weights."""
    if not isinstance(mechanism, PrivUnit):
        noise = np.arange(-_TAIL, _TAIL + _STEP, _STEP)
        return mechanism.clip_norm * math.sqrt(mechanism.dimension) / mechanism.noise_norm + noise, np.exp(-(noise**2) / 2)
    threshold = mechanism.threshold
    # midpoints, so that no value lies on the threshold, where the density jumps
    below, above = (threshold + sign * (np.arange(0, threshold + _TAIL, _STEP) + _STEP / 2) for sign in (-1, 1))
    parts = [np.exp(-(below**2) / 2), np.exp((threshold**2 - above**2) / 2)]
    masses = (1 - mechanism.cap_probability, mechanism.cap_probability)
    return np.concatenate((below, above)), np.concatenate([mass * part / part.sum() for mass, part in zip(masses, parts)])
