"""A public dictionary over which people report words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._native.generators import require_generator
from hushvec.collect.dictionary import OTHER, Dictionary
from hushvec.collect.memo import Memo
from hushvec.collect.release import Collection
from hushvec.collect.sketch import Sketch
from hushvec.collect.words import require_words


class Vocabulary(Dictionary, Collection):
    """Words that people report privately, each on their own device.

    Args:
        words: the public dictionary: distinct strings, 2 to 2^24 of them, compared as they are (no case folding or normalization).
        epsilon: > 0, of all of a person's reports together: each has epsilon / words_per_person.
        mechanism: "k_rr" (k-ary randomized response), "unary" (optimized unary encoding), "hadamard" (Hadamard response), or "auto":
            the smallest mean variance, and among those within 10 % of it the shortest report.
        words_per_person: >= 1, how many words a person reports.
        unknown: what happens to a word outside the dictionary: "error", or "other": it is reported as `OTHER`, one more word.

    Raises:
        TypeError, ValueError: words or numbers that break these rules; epsilon so small that reports would carry nothing.

    Guarantees:
        Each report is (epsilon / words_per_person, 0)-DP under replacement of its word, in the local model: only the person sees the
        word. Exact as sampled: all probabilities are whole numbers over 2^64 and their ratio is at most e^epsilon;
        `true_epsilon` is what it comes to. With a `Memo` the same holds for any number of reports of the same words.

    Edge cases:
        With "other" a word `OTHER` in `words` is refused. One report alone may be as long as the dictionary ("unary", a bit per
        word): `report_bytes` says how long.

    Reference:
        Kairouz, Bonawitz, Ramage (2016); Wang, Blocki, Li, Jha (2017); Acharya, Sun, Zhang (2019);
        docs/proofs/frequency_oracles.md.

    Example:
        >>> from hushvec.collect import Vocabulary
        >>> vocabulary = Vocabulary([f"word{i}" for i in range(1000)], epsilon=1.0)
        >>> print("\\n".join(vocabulary.describe()))
        unary over 1,000 words, epsilon = 1 for 1 word per person (at most 1 as sampled)
        a report has 128 bytes
        from 1,000,000 reports, a frequency has the standard error 0.00192
        >>> sketch = vocabulary.sketch()
        >>> sketch.add(vocabulary.report(["word7", "word8"]))
        >>> sketch.reports
        2
    """

    def sketch(self) -> Sketch:
        """An empty sketch for the collector."""
        return Sketch(self)

    @cached_property
    def _code_of(self) -> dict[str, int]:
        return {word: code for code, word in enumerate(self.words)}

    def _known(self, words: Sequence[str]) -> list[str]:
        listed = list(words)
        require_words("words", listed)
        if self.unknown == "other":
            return [word if word in self._code_of else OTHER for word in listed]
        for place, word in enumerate(listed):
            if word not in self._code_of:
                raise ValueError(
                    f"words must be among the {len(self.words):,} of the vocabulary, got {word!r:.80} at position {place}; "
                    "unknown='other' would report such words as one"
                )
        return listed

    def _codes(self, words: list[str]) -> NDArray[np.int64]:
        return np.fromiter(map(self._code_of.__getitem__, words), np.int64, len(words))

    def _drawn(self, words: list[str], generator: _core.Generator) -> NDArray[Any]:
        return self.oracle.draw(self._codes(words), generator)

    def _drawn_from_memo(self, words: list[str], memo: Memo, generator: _core.Generator | None) -> NDArray[Any]:
        if not words:
            return self._drawn(words, require_generator(generator))
        place_of = {word: place for place, word in enumerate(dict.fromkeys(words))}
        drawn = [self.oracle.draw(self._codes([word]), memo.source(self.digest, word)) for word in place_of]
        return np.concatenate(drawn)[[place_of[word] for word in words]]

    @property
    def _receipt_law(self) -> dict[str, Any]:
        truth, other = self.oracle.law
        unused = dict.fromkeys(("hashes", "one_values", "zero_values"), 0)
        return dict(mechanism=self.mechanism, cells=self.oracle.cells, truth_values=truth, other_values=other, **unused)
