"""A dictionary and the oracle that reports its words: what reports cost, and what they are worth."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hushvec._util import validate
from hushvec._util.display import plural
from hushvec._util.renamed import renamed_arguments
from hushvec._util.rounding import fraction_up, log_ratio_up, quotient_down
from hushvec.collect.oracles import MOST_WORDS, Oracle, oracle_for
from hushvec.collect.words import require_words

OTHER = "<other>"

_UNKNOWN = ("error", "other")
_VERSION = 1


class Dictionary:
    """See `Vocabulary`, which adds the reports."""

    @renamed_arguments(words_per_user="words_per_person")
    def __init__(
        self,
        words: Sequence[str],
        epsilon: float,
        *,
        mechanism: str = "auto",
        words_per_person: int = 1,
        unknown: str = "error",
    ) -> None:
        self.unknown = validate.choice("unknown", unknown, _UNKNOWN)
        self.words = _dictionary(words, with_other=unknown == "other")
        self.epsilon = validate.positive("epsilon", epsilon)
        self.words_per_person = validate.whole_number("words_per_person", words_per_person, at_least=1)
        share = quotient_down(self.epsilon, self.words_per_person)
        self.oracle: Oracle = oracle_for(mechanism, len(self.words), share)
        self.digest = self._digest()

    @property
    def mechanism(self) -> str:
        """"k_rr", "unary" or "hadamard"."""
        return self.oracle.name

    @property
    def report_epsilon(self) -> float:
        """Of one report: epsilon / words_per_person, rounded down."""
        return self.oracle.epsilon

    @property
    def word_epsilon(self) -> float:
        """Of one word and all its memoized reports: the same, as they are one report."""
        return self.oracle.epsilon

    @property
    def true_epsilon(self) -> float:
        """What the sampled probabilities give for all of a person's words, rounded up; at most `epsilon`."""
        return fraction_up(log_ratio_up(*self.oracle.law, times=self.words_per_person))

    @property
    def report_bytes(self) -> int:
        """Size of a report."""
        return self.oracle.report_bytes

    def standard_error(self, frequency: float, reports: int) -> float:
        """Of the estimated frequency of a word that this share of the reports is about.

        For "hadamard" the other reports are taken to be spread evenly over the other words.
        """
        if not 0 <= validate.number("frequency", frequency) <= 1:
            raise ValueError(f"frequency must be in [0, 1], got {frequency!r}")
        return math.sqrt(self.oracle.variance_at(frequency, validate.whole_number("reports", reports, at_least=1)))

    def root_mean_square_error(self, reports: int) -> float:
        """Of the estimated frequencies over the whole dictionary, in theory and for any true frequencies.

        Args:
            reports: >= 1.
        """
        return math.sqrt(self.oracle.mean_variance / validate.whole_number("reports", reports, at_least=1))

    def describe(self) -> tuple[str, ...]:
        """Lines that say what a report costs, how long it is and how good many of them are."""
        persons = "1 word per person" if self.words_per_person == 1 else f"{self.words_per_person} words per person"
        return (
            f"{self.mechanism} over {len(self.words):,} words, epsilon = {self.epsilon:g} for {persons} "
            f"(at most {self.true_epsilon:.9g} as sampled)",
            f"a report has {plural(self.report_bytes, 'byte')}",
            f"from 1,000,000 reports, a frequency has the standard error {self.root_mean_square_error(1_000_000):.3g}",
        )

    def _digest(self) -> str:
        parameters = f"hushvec vocabulary {_VERSION}\n{self.mechanism}\n{self.report_epsilon.hex()}\n"
        parameters += f"{self.words_per_person}\n{self.oracle.cells}\n"
        hashed = hashlib.sha256(parameters.encode())
        for word in self.words:
            encoded = word.encode()
            hashed.update(len(encoded).to_bytes(8, "little") + encoded)
        return hashed.hexdigest()


def _dictionary(words: Any, *, with_other: bool) -> tuple[str, ...]:
    if isinstance(words, str | bytes):
        raise TypeError(f"words must be a sequence of strings, got {validate.kind(words)}")
    try:
        listed = list(words.tolist() if isinstance(words, np.ndarray) else words)
    except TypeError:
        raise TypeError(f"words must be a sequence of strings, got {validate.kind(words)}") from None
    require_words("words", listed)
    if with_other and OTHER in listed:
        raise ValueError(f"words must not hold {OTHER!r}, which stands for all others with unknown='other'")
    seen: set[str] = set()
    for word in listed:
        if word in seen:
            raise ValueError(f"words must be all different, got {word!r:.80} twice")
        seen.add(word)
    complete = (*listed, OTHER) if with_other else tuple(listed)
    if not 2 <= len(complete) <= MOST_WORDS:
        raise ValueError(f"words must be 2 to 2^24, got {len(complete)}")
    return complete
