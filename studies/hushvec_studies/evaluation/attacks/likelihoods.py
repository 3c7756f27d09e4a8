"""How likely each release is for each candidate row, under every mechanism that is compared."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from hushvec.mechanisms import Laplacian
from hushvec.mechanisms.codebook import CodebookResponse
from hushvec.mechanisms.public_arrays import nearest_codes
from hushvec.text.inverters.posterior import CandidateLaw
from hushvec_studies.evaluation.attacks.recognition import released_codes
from hushvec_studies.evaluation.contenders import Contender

Rows = NDArray[np.float32]
Table = NDArray[np.float64]

# Releases without noise are compared as if rounding were noise of this deviation.
_ROUNDING = 1e-3
# Rows of one square table of which only the diagonal is used.
_PAIRS = 64


def log_likelihoods(contender: Contender, released: Rows, clean: Rows) -> Table:
    """[n, c]: ln of the likelihood of each release if each candidate was behind it, less a term of the release alone.

    Args:
        contender: that released the rows.
        released: [n, e].
        clean: [c, e], candidates as `contender.beside` makes them.
    """
    mechanism = contender.mechanism
    if mechanism is None:
        return np.asarray(released @ clean.T, np.float64) / _ROUNDING**2
    if isinstance(mechanism, CodebookResponse):
        truth, other = mechanism.response.law
        said, own = released_codes(mechanism, released), nearest_codes(clean, mechanism.codebook.codes)
        return np.where(said[:, None] == own[None, :], math.log(truth / other), 0.0)
    if isinstance(mechanism, Laplacian):
        return np.asarray(-cdist(released, clean, "cityblock") / mechanism.noise_parameter, np.float64)
    return np.asarray(CandidateLaw(mechanism, clean, 1.0).log_likelihood(released), np.float64)


def log_ratios(contender: Contender, released: Rows, first: Rows, second: Rows) -> Table:
    """[n]: ln of how much likelier each release is with its first candidate behind it than with its second. All are [n, e]."""
    found = np.empty(len(released))
    for start in range(0, len(released), _PAIRS):
        part = slice(start, start + _PAIRS)
        both = log_likelihoods(contender, released[part], np.concatenate([first[part], second[part]]))
        place = np.arange(len(both))
        found[part] = both[place, place] - both[place, place + len(both)]
    return found
