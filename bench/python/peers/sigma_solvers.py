"""Solvers for the Gaussian mechanism's sigma: scipy's vectorised root finder and dp-accounting."""

from __future__ import annotations

import numpy as np

from contestant import Contestant

LOG_SIGMA_BRACKET = (np.log(1e-2), np.log(1e3))


class ScipyFindRoot(Contestant):
    """Theorem 8 of Balle and Wang (2018) in log space, all pairs at once."""

    name = "scipy find_root"

    def open(self) -> None:
        from scipy.optimize.elementwise import find_root
        from scipy.special import log_ndtr

        self._find_root = find_root
        self._log_ndtr = log_ndtr

    def _log_delta_error(
        self, log_sigma: np.ndarray, epsilon: np.ndarray, log_delta: np.ndarray
    ) -> np.ndarray:
        sigma = np.exp(log_sigma)
        a, b = 0.5 / sigma, epsilon * sigma
        gain = self._log_ndtr(a - b)
        loss = epsilon + self._log_ndtr(-a - b)
        # Where the two agree to the last place delta is 0 and its logarithm -inf,
        # which the bracketing takes as "too small", as it should.
        with np.errstate(divide="ignore"):
            return gain + np.log1p(-np.exp(np.minimum(loss - gain, 0.0))) - log_delta

    def calibrate(self, epsilon: np.ndarray, delta: np.ndarray) -> np.ndarray:
        low, high = (np.full_like(epsilon, end) for end in LOG_SIGMA_BRACKET)
        found = self._find_root(self._log_delta_error, (low, high), args=(epsilon, np.log(delta)))
        return np.exp(found.x)


class DpAccounting(Contestant):
    """One call a pair: the library takes no arrays."""

    name = "dp-accounting"
    sample_limit = 100

    def open(self) -> None:
        from dp_accounting.gaussian_mechanism import get_sigma_gaussian

        self._get_sigma = get_sigma_gaussian

    def calibrate(self, epsilon: np.ndarray, delta: np.ndarray) -> np.ndarray:
        return np.array([self._get_sigma(e, d) for e, d in zip(epsilon.tolist(), delta.tolist())])
