"""Estimated frequencies with their errors, and which words are present: p-values of "nobody has this word"."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec._util.statistics import CORRECTIONS, adjusted, binom_p_value, norm_sf

_Floats = NDArray[np.float64]


def binomial_p_values(successes: NDArray[np.int64], trials: NDArray[np.int64], probability: float) -> _Floats:
    """P[Binomial(trials, probability) >= successes], one a word, exact up to the margin added; 1 up to the mean."""
    result = np.ones(len(successes))
    above = np.flatnonzero(successes > trials * probability)
    questions, place = np.unique(np.stack((successes[above], trials[above])), axis=1, return_inverse=True)
    p_values = np.array([binom_p_value(int(k), int(n), probability) for k, n in questions.T])
    result[above] = p_values[place.ravel()] if len(above) else 1.0
    return result


def normal_p_values(z: _Floats) -> _Floats:
    """P[N(0, 1) >= z], one a word."""
    return np.array([norm_sf(value) for value in z.tolist()])


@dataclass(frozen=True, kw_only=True)
class WordFrequencies:
    """How common each word is among the reports.

    Attributes:
        words: in the order of the arrays.
        frequencies: share of the reports whose true word it is, unbiased; rare words may come out below 0.
        standard_errors: one a word.
        reports: how many there were.
        unknown: for a Bloom filter decoded with an intercept, the estimated share of reports of words outside the list; else None.
    """

    words: Sequence[str]
    frequencies: NDArray[np.float64]
    standard_errors: NDArray[np.float64]
    reports: int
    unknown: float | None = None
    p_values_of: Callable[[], NDArray[np.float64]] = field(repr=False, compare=False)

    @property
    def counts(self) -> NDArray[np.float64]:
        """Estimated number of reports whose true word it is."""
        return np.asarray(self.frequencies * self.reports)

    @cached_property
    def p_values(self) -> NDArray[np.float64]:
        """p-values of "no report has this word", one-sided, one a word; not corrected."""
        return self.p_values_of()

    def present(self, alpha: float = 0.05, correction: str = "holm") -> list[str]:
        """The words that somebody has, the most frequent first.

        Args:
            alpha: in (0, 1): the error that `correction` limits.
            correction: "holm" or "bonferroni": with probability 1 - alpha no word of the list is absent. "benjamini-hochberg": at most
                a share alpha of the list is, on average.
        """
        alpha = validate.probability("alpha", alpha)
        found = adjusted(self.p_values, validate.choice("correction", correction, CORRECTIONS)) <= alpha
        return [self.words[i] for i in self._by_frequency if found[i]]

    def top(self, k: int) -> list[tuple[str, float, float]]:
        """The k >= 1 words of the largest estimates: (word, frequency, standard error)."""
        chosen = self._by_frequency[: validate.whole_number("k", k, at_least=1)]
        return [(self.words[i], float(self.frequencies[i]), float(self.standard_errors[i])) for i in chosen]

    @cached_property
    def _by_frequency(self) -> list[int]:
        order: list[int] = np.argsort(-self.frequencies, kind="stable").tolist()
        return order
