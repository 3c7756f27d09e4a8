"""The mechanisms that are compared, by the name they have in tables; the public maps before them; and what theory says of top-1.

What no mechanism exceeds is `hushvec.retrieval.attacks.bounds.identification_bound`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec.mechanisms import MECHANISMS, EmpiricalGaussian, PrivUnit, PublicProjection, VectorMechanism
from hushvec.noise import gaussian_sigma
from hushvec_studies.clinical.cohort import Population, Source

EMPIRICAL = "empirical"
CLASSICAL = "gaussian (classical)"
PRIVUNIT = "privunit"
PRIVUNIT_CORPUS = "privunit (corpus_size)"


# Those that are asked for an epsilon.
LDP = (PRIVUNIT, PRIVUNIT_CORPUS, "gaussian", CLASSICAL, "laplacian", "l2_laplace")


def mechanism_for(
    name: str, *, dimension: int, others: int, epsilon: float | None, sigma: float | None, delta: float
) -> VectorMechanism:
    """The mechanism of that name, for unit rows (clip_norm 1) and one row a person.

    Args:
        dimension: of the rows behind the public map.
        others: among how many other rows the right one is to be found.
        epsilon: asked for; None for "empirical", which has a sigma.
        delta: for the Gaussian kinds.
    """
    if name == CLASSICAL:  # noise of the published formula, with the epsilon that it really buys
        assert epsilon is not None
        sigma = float(gaussian_sigma(epsilon, delta, 2.0, method="classical", allow_unproven=True))
    if sigma is not None:
        return EmpiricalGaussian(chosen_sigma=sigma, delta=delta, dimension=dimension)
    assert epsilon is not None
    own: dict[str, dict[str, Any]] = {PRIVUNIT_CORPUS: {"corpus_size": others}, "gaussian": {"delta": delta}}
    given: dict[str, Any] = {"epsilon": epsilon, "dimension": dimension, **own.get(name, {})}
    return MECHANISMS[name.split()[0]](**given)


# ---- public maps ----

NONE, MEAN, WHITENED, MEAN_ELSEWHERE = "none", "mean", "whitened", "mean (elsewhere)"
MAPS = (NONE, MEAN, WHITENED)

# A direction in which public rows vary less than this, relative to the strongest, is kept out of whitening: it would be stretched
# that much more than the others.
_SMALLEST_SPREAD = 1e-2


def fitted(name: str, source: Source, public_rows: int, patients: int) -> PublicProjection | None:
    """The map of that name, None for "none".

    Args:
        name: "mean" removes the mean of public rows; "whitened" also stretches all directions in which they vary to the same spread;
            "mean (elsewhere)" removes the mean of another population.
        public_rows: how many rows of the source it is fitted on, where they are drawn.
        patients: how many of the source's patients are to be released: none of them is among the public rows.
    """
    if name == NONE:
        return None
    if name == MEAN_ELSEWHERE:
        if not isinstance(source, Population):
            raise ValueError(f"map {name!r} must be for a drawn population, got rows of {source.name}")
        return PublicProjection.mean_only(source.elsewhere(public_rows))
    public = source.public(public_rows, patients)
    if len(public) < 2:
        raise ValueError(
            f"map {name!r} needs at least 2 public rows, got {len(public)}: leave some of {source.name} out of the patients"
        )
    if name == MEAN:
        return PublicProjection.mean_only(public)
    return PublicProjection.fit(public, components=_directions(public), whiten=True)


def _directions(public: NDArray[np.float32]) -> int:
    """In how many directions the public rows vary."""
    wide = public.astype(np.float64)
    spread = np.sqrt(np.maximum(np.linalg.eigvalsh(np.cov(wide, rowvar=False, bias=True)), 0.0))
    return int((spread > _SMALLEST_SPREAD * spread[-1]).sum())


# ---- theory ----

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
    the law of the component along the row for PrivUnit, whose case s = 1 is hushvec.mechanisms.privunit.top_1_probability.

    Example:
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
