"""Which words somebody has: p-values of "nobody has this word"."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushvec._util.statistics import binom_p_value, norm_sf

_Floats = NDArray[np.float64]


def binomial_p_values(successes: NDArray[np.int64], trials: NDArray[np.int64], probability: float) -> _Floats:
    """P[Binomial(trials, probability) >= successes], one a word; 1 where the successes are not above their mean.

    Exact up to the margin that is added: rare words of a large survey lie where a normal approximation would be wrong by factors.
    """
    result = np.ones(len(successes))
    above = np.flatnonzero(successes > trials * probability)
    questions, place = np.unique(np.stack((successes[above], trials[above])), axis=1, return_inverse=True)
    p_values = np.array([binom_p_value(int(k), int(n), probability) for k, n in questions.T])
    result[above] = p_values[place.ravel()] if len(above) else 1.0
    return result


def normal_p_values(z: _Floats) -> _Floats:
    """P[N(0, 1) >= z], one a word."""
    return np.array([norm_sf(value) for value in z.tolist()])
