"""Estimated frequencies with their errors, and which words are present."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec._util.statistics import CORRECTIONS, adjusted


@dataclass(frozen=True, kw_only=True)
class WordFrequencies:
    """How common each word is among the reports.

    Attributes:
        words: in the order of the arrays.
        frequencies: share of the reports whose true word it is, unbiased; rare words may come out below 0.
        standard_errors: one a word.
        reports: how many there were.
        unknown: for a Bloom filter decoded with an intercept, the estimated share of reports of words outside the list; else None.

    Example:
        >>> import hushvec as hv
        >>> from hushvec.collect import Vocabulary
        >>> vocabulary = Vocabulary(["yes", "no", "unsure"], epsilon=2.0)
        >>> sketch = vocabulary.sketch()
        >>> sketch.add(vocabulary.report(["yes"] * 900 + ["no"] * 100, generator=hv.Generator.unsafe_seeded(3)))
        >>> estimate = sketch.estimate()
        >>> estimate.present(), [(word, round(share, 2)) for word, share, error in estimate.top(2)]
        (['yes', 'no'], [('yes', 0.95), ('no', 0.08)])
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
        result: NDArray[np.float64] = self.frequencies * self.reports
        return result

    @cached_property
    def p_values(self) -> NDArray[np.float64]:
        """Of "no report has this word", one-sided, one a word; not corrected."""
        return self.p_values_of()

    def present(self, alpha: float = 0.05, correction: str = "holm") -> list[str]:
        """The words that somebody has, the most frequent first.

        Args:
            alpha: > 0 and < 1: the error that `correction` limits.
            correction: "holm" or "bonferroni": with probability 1 - alpha no word of the list is absent. "benjamini-hochberg": at most
                a share alpha of the list is, on average.
        """
        alpha = validate.probability("alpha", alpha)
        found = adjusted(self.p_values, validate.choice("correction", correction, CORRECTIONS)) <= alpha
        return [self.words[i] for i in self._by_frequency if found[i]]

    def top(self, k: int) -> list[tuple[str, float, float]]:
        """The k words of the largest estimates: (word, frequency, standard error).

        Args:
            k: >= 1; all words where there are fewer.
        """
        chosen = self._by_frequency[: validate.whole_number("k", k, at_least=1)]
        return [(self.words[i], float(self.frequencies[i]), float(self.standard_errors[i])) for i in chosen]

    @cached_property
    def _by_frequency(self) -> list[int]:
        order: list[int] = np.argsort(-self.frequencies, kind="stable").tolist()
        return order
